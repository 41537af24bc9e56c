"""Which files no tool reads or writes."""

import pytest

from melete.security.denied import Whose, judge_file

ME = Whose(homes=("/home/me",), own=("/home/me/.melete",), cwd="/home/me/work")


@pytest.mark.parametrize(
    ("path", "read", "write"),
    [
        ("/home/me/work/a.py", "allow", "allow"),
        ("/home/me/work/.env", "allow", "allow"),
        ("/home/me/.ssh/id_ed25519", "forbid", "forbid"),
        ("/home/you/.aws/credentials", "forbid", "forbid"),
        ("/root/.netrc", "forbid", "forbid"),
        ("/srv/backup/id_rsa", "forbid", "forbid"),
        ("/etc/shadow", "forbid", "forbid"),
        ("/proc/1/environ", "forbid", "forbid"),
        ("/proc/self/task/1/mem", "forbid", "forbid"),
        ("/proc/self/status", "allow", "forbid"),
        ("/home/me/.bashrc", "allow", "forbid"),
        ("/home/me/.config/systemd/user/x.service", "allow", "forbid"),
        ("/home/me/work/.git/hooks/post-commit", "allow", "forbid"),
        ("/home/me/work/.git/config", "allow", "forbid"),
        ("/home/me/work/.git", "allow", "forbid"),
        ("/home/me/work/.GIT/Hooks/x", "allow", "forbid"),
        ("/home/me/work/.git/modules/a/b/config", "allow", "forbid"),
        ("/home/me/work/.git/worktrees/w/commondir", "allow", "forbid"),
        ("/home/me/work/.git/worktrees/w/config.worktree", "allow", "forbid"),
        ("/home/me/work/.git/info/attributes", "allow", "forbid"),
        ("/home/me/work/.git/info/exclude", "allow", "allow"),
        ("/home/me/work/.gitattributes", "allow", "allow"),
        ("/home/me/work/hooks/config", "allow", "allow"),
        ("/home/me/.SSH/id", "forbid", "forbid"),
        ("/home/me/.Config/Google-Chrome/x", "forbid", "forbid"),
        ("/Users/me/Library/Keychains/login", "forbid", "forbid"),
        ("/Users/me/Library/Application Support/Firefox/x", "forbid", "forbid"),
        ("/Users/me/Library/LaunchAgents/x.plist", "allow", "forbid"),
        ("/private/etc/sudoers", "forbid", "forbid"),
        ("/home/me/.gdbinit", "allow", "forbid"),
        ("/home/me/.local/lib/python3.12/site-packages/x.pth", "allow", "forbid"),
        ("/home/me/.local/lib/python3.12/site-packages/x.py", "allow", "allow"),
        ("/etc/cron.weekly/x", "allow", "forbid"),
        ("/usr/bin/ls", "allow", "forbid"),
        ("/usr/local/bin/x", "allow", "allow"),
        ("/dev/mem", "forbid", "forbid"),
        ("/dev/null", "allow", "forbid"),
        ("/etc/ssh/ssh_host_ed25519_key", "forbid", "forbid"),
        ("/etc/ssh/ssh_host_ed25519_key.pub", "allow", "forbid"),
        ("/home/me/.MELETE/.ENV", "forbid", "forbid"),
        ("/home/me/.sshx", "allow", "allow"),
        ("/home/me/.melete/.env", "forbid", "forbid"),
        ("/home/me/.melete/profiles/two/.env", "forbid", "forbid"),
        ("/home/me/.melete/config.yaml", "allow", "forbid"),
        ("/home/me/.melete/state/sessions/x", "allow", "forbid"),
        ("/home/me/.melete/workspace/a", "allow", "allow"),
        ("/home/me/.melete/profiles/two/workspace/a", "allow", "allow"),
        ("/home/me/.melete/profiles/two/SOUL.md", "allow", "forbid"),
    ],
)
def test_the_list(path: str, read: str, write: str) -> None:
    assert (judge_file(path, ME, write=False).verdict, judge_file(path, ME, write=True).verdict) == (read, write)


def test_who_starts_in_a_folder_of_settings_works_on_it() -> None:
    there = Whose(homes=("/home/me",), cwd="/home/me/.config/nvim")
    assert judge_file("/home/me/.config/nvim/init.lua", there, write=True).verdict == "allow"
    assert judge_file("/home/me/.bashrc", there, write=True).verdict == "forbid"
