"""Programs that run other programs, as data: where in their arguments the other command stands. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from melete.security.words import names


class Wrapper(Struct, frozen=True, kw_only=True):
    """How to find the command behind a program's name.

    `values`: options that take a word; `skip`: operands before the command; `text`: options whose value is a shell text;
    `joined`: the rest is one shell text, not arguments; `assigns`: NAME=VALUE words may stand before it; `after`: subcommands, one
    of which must come first; `reads`: without a command it is a shell that reads its input.
    """

    values: str = ""
    skip: int = 0
    text: str = ""
    joined: bool = False
    assigns: bool = False
    after: str = ""
    reads: bool = False


NO_OPERANDS: Final = 50
"""From this on, as `skip`: a command stands only behind `--`."""
_NONE = Wrapper()
WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "sudo": Wrapper(reads=True, values="-u -g -p -h -C -r -t -T -U -D -R --user --group --prompt --host --chdir --chroot --role --type",
                    assigns=True),
    "doas": Wrapper(reads=True, values="-u -C", assigns=True),
    "pkexec": Wrapper(values="--user"),
    "run0": Wrapper(values="-u --user -g --group -D --chdir"),
    "su": Wrapper(reads=True, text="-c --command", skip=99, values="-s --shell -g -G -w"),
    "runuser": Wrapper(reads=True, text="-c --command", values="-u --user -g -G -s --shell -w"),
    "sg": Wrapper(text="-c", skip=1, joined=True),
    "env": Wrapper(values="-u -C -P --unset --chdir -a --argv0", text="-S --split-string", assigns=True),
    "nice": Wrapper(values="-n --adjustment"),
    "ionice": Wrapper(values="-c -n -p -P -u --class --classdata"),
    "chrt": Wrapper(skip=1, values="-T -P -D"), "taskset": Wrapper(skip=1), "numactl": Wrapper(values="-m -N -C -p -i"),
    "nohup": _NONE, "setsid": _NONE, "command": _NONE, "builtin": _NONE, "stdbuf": Wrapper(values="-i -o -e"),
    "exec": Wrapper(values="-a"), "time": Wrapper(values="-f -o --format --output"), "noglob": _NONE, "nocorrect": _NONE,
    "coproc": _NONE, "timeout": Wrapper(values="-k -s --kill-after --signal", skip=1), "gtimeout": Wrapper(skip=1, values="-k -s"),
    "chroot": Wrapper(reads=True, skip=1), "unshare": Wrapper(reads=True, values="-R -w -S -G --root --wd --setuid --setgid"),
    "nsenter": Wrapper(reads=True, values="-t -S -G --target --setuid --setgid"), "setpriv": Wrapper(values="--reuid --regid --groups"),
    "setarch": _NONE, "linux32": _NONE, "linux64": _NONE, "prlimit": _NONE, "cpulimit": Wrapper(values="-l -p -e"),
    "flock": Wrapper(values="-w -E --timeout", text="-c --command", skip=1),
    "watch": Wrapper(values="-n -q --interval", joined=True), "chpst": Wrapper(values="-u -U -b -/ -n -l -L -m -d -o -p -f -c -e"),
    "setuidgid": Wrapper(skip=1), "softlimit": Wrapper(values="-a -d -m -o"), "s6-setuidgid": Wrapper(skip=1),
    "envdir": Wrapper(skip=1), "gosu": Wrapper(skip=1), "su-exec": Wrapper(skip=1), "capsh": Wrapper(text="-c"),
    "strace": Wrapper(values="-e -o -p -s -u -E -a -S -P -I -b -O -X"), "ltrace": Wrapper(values="-e -o -p -s -u -a -n -l -F"),
    "valgrind": _NONE, "perf": Wrapper(after="stat record trace", values="-e -o -p -a"), "gdb": Wrapper(skip=99),
    "systemd-run": Wrapper(values="-u -p -M -H -t --unit --property --uid --gid --machine --setenv -E"),
    "systemd-inhibit": _NONE, "dbus-run-session": _NONE, "dbus-launch": _NONE, "xvfb-run": Wrapper(values="-s -n -e -f"),
    "caffeinate": Wrapper(values="-t -w"), "unbuffer": _NONE, "torsocks": _NONE, "torify": _NONE, "proxychains": Wrapper(values="-f"),
    "proxychains4": Wrapper(values="-f"), "firejail": _NONE,
    "fakeroot": _NONE, "systemd-nspawn": Wrapper(values="-M -D -i -u --hostname --machine --directory --bind"), "run-parts": Wrapper(skip=99), "faketime": Wrapper(skip=1), "hyperfine": Wrapper(values="-w -r -m -M", joined=True), "entr": _NONE,
    "script": Wrapper(text="-c --command", skip=99), "expect": Wrapper(skip=99), "start-stop-daemon": Wrapper(skip=99,
                      text="-x --exec -a --startas"), "daemon": _NONE, "rlwrap": _NONE, "xargs": _NONE, "eval": Wrapper(joined=True),
    "ssh": Wrapper(values="-p -l -i -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w -B", skip=1, joined=True),
    "sshpass": Wrapper(values="-p -f -d -P"), "autossh": Wrapper(values="-M -p -l -i -o -F", skip=1, joined=True),
    "mosh": Wrapper(skip=1), "rsh": Wrapper(values="-l", skip=1, joined=True), "sem": Wrapper(values="-j"),
    "docker": Wrapper(after="exec run", values="-e -u -w -v -p --name --network --user --workdir --volume --env --env-file --mount"
                      " --entrypoint -h --hostname --label -l -m --memory --cpus --add-host --device --platform --pull", skip=1),
    "kubectl": Wrapper(after="exec run debug", values="-n -c --namespace --container --context --image", skip=1),
    "lxc": Wrapper(after="exec", skip=1), "lxc-attach": Wrapper(values="-n --name"), "vagrant": Wrapper(text="-c --command", skip=99),
    "machinectl": Wrapper(after="shell", skip=1), "multipass": Wrapper(after="exec", skip=1), "wsl": Wrapper(values="-d -u"),
    "uv": Wrapper(after="run", values="--with --python -p --extra --group"), "poetry": Wrapper(after="run"),
    "pipenv": Wrapper(after="run"), "pdm": Wrapper(after="run"), "npx": Wrapper(text="-c --call", values="-p --package"),
    "bundle": Wrapper(after="exec"), "direnv": Wrapper(after="exec", skip=1), "conda": Wrapper(after="run", values="-n -p --name"),
    "pnpm": Wrapper(after="exec dlx"), "yarn": Wrapper(after="exec"), "mise": Wrapper(after="exec x"), "asdf": Wrapper(after="exec"),
    "doppler": Wrapper(after="run", text="--command", values="-p -c --project --config"), "op": Wrapper(after="run"),
    "aws-vault": Wrapper(after="exec", skip=1), "dotenv": Wrapper(after="run"), "nix-shell": Wrapper(text="--run --command", skip=99),
    "guix": Wrapper(after="shell environment", skip=99), "npm": Wrapper(after="exec x", text="-c --call"),
    "gcloud": Wrapper(after="ssh", text="--command -c", skip=99), "heroku": Wrapper(after="run run:detached", values="-a --app", joined=True),
    "fly": Wrapper(after="console", text="-C --command", skip=99), "flyctl": Wrapper(after="console", text="-C --command", skip=99),
    "uvx": Wrapper(values="--from --with -p --python"), "pipx": Wrapper(after="run", values="--spec --python"),
    "jobs": Wrapper(after="-x"),
    "screen": Wrapper(values="-S -t -c -e -h -s -p -T -x -r"),
    "adb": Wrapper(after="shell", values="-s", joined=True), "ld.so": _NONE, "ld-linux-x86-64.so.2": _NONE,
    "at": Wrapper(skip=99), "catchsegv": _NONE, "ts": Wrapper(skip=99), "aa-exec": Wrapper(values="-p"), "runcon": Wrapper(skip=1),
    "launchctl": Wrapper(after="asuser bsexec", skip=1), "choom": Wrapper(values="-n"), "pidstat": Wrapper(values="-e", skip=99),
    "xdotool": Wrapper(after="exec"), "toybox": _NONE, "busybox": _NONE, "cpulimit-all": _NONE, "schroot": Wrapper(values="-c -u -d"),
}  # fmt: skip
"""What each wrapper's options are; a name that is missing here runs nothing else that we know of."""

SOUGHT: Final = names(
    "bwrap proot watchexec nix pssh pdsh parallel-ssh parallel-rsync fab clush dsh arch-chroot systemd-nspawn toolbox distrobox flatpak apptainer singularity"
)
MATTER: Final = names(
    "rm dd mkfs mkfs.ext4 mkfs.xfs shred wipefs chmod chown mv cp tee truncate find git kill reboot shutdown poweroff halt curl wget"
    " make npm pip apt apt-get systemctl"
)
ALIASES: Final = {
    "podman": "docker", "nerdctl": "docker", "oc": "kubectl", "k3s": "kubectl", "remsh": "rsh", "gxargs": "xargs",
    "gnice": "nice", "gnohup": "nohup", "genv": "env", "gstdbuf": "stdbuf", "batch": "at", "docker-compose": "docker",
}  # fmt: skip
SHELLS: Final = names("sh bash dash zsh ksh mksh ash fish tcsh csh rbash rksh lksh yash osh nu elvish")
LANGUAGES: Final = {
    "python": "-c", "pypy": "-c", "perl": "-e -E -ne -pe -le -lne -ane", "ruby": "-e", "node": "-e -p --eval --print -pe",
    "nodejs": "-e -p --eval", "deno": "eval", "bun": "-e --eval eval", "php": "-r -B -R -E", "lua": "-e", "luajit": "-e",
    "tclsh": "-c", "Rscript": "-e", "R": "-e", "julia": "-e -E", "osascript": "-e", "pwsh": "-c -Command -EncodedCommand -e",
    "powershell": "-c -Command -EncodedCommand", "awk": "", "gawk": "-e --source", "mawk": "", "nawk": "", "jjs": "", "irb": "",
    "jrunscript": "-e", "octave": "--eval", "octave-cli": "--eval", "groovy": "-e", "scala": "-e", "elixir": "-e", "erl": "-eval",
    "ghc": "-e", "guile": "-c", "emacs": "--eval", "ipython": "-c", "gdb": "-ex -eval-command", "expect": "-c", "slsh": "-e",
    "gimp": "-b", "sqlite3": "", "mysql": "-e --execute", "mariadb": "-e --execute", "psql": "-c --command", "bpftrace": "-e", "puppet": "-e", "jshell": "", "ghci": "", "lldb": "-o",
}  # fmt: skip
"""Interpreters and the options that hand them code."""
OPTION_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "tar": ("--checkpoint-action", "--to-command", "--use-compress-program", "-I", "--info-script", "--rsh-command", "-F"),
    "rsync": ("-e", "--rsh"), "zip": ("-TT", "--unzip-command"), "man": ("-P", "--pager", "-H"), "mapfile": ("-C",),
    "readarray": ("-C",), "fzf": ("--preview", "--bind"), "sort": ("--compress-program",), "split": ("--filter",),
    "restic": ("--password-command",), "scp": ("-S",), "sftp": ("-S",), "less": ("-+",), "ssh-keygen": ("-D",),
    "compgen": ("-C", "-W"), "complete": ("-C", "-W"), "bind": ("-x",), "tmux": (), "dpkg": ("--pre-invoke", "--post-invoke"), "rpm": ("--pipe",), "socat": (), "nc": ("-e", "-c", "--exec", "--sh-exec"),
    "ncat": ("-e", "-c", "--exec", "--sh-exec"), "netcat": ("-e", "-c"), "xterm": ("-e",), "gnome-terminal": ("-e", "-x"),
    "konsole": ("-e",), "logsave": (), "kitty": ("-e",), "alacritty": ("-e",), "tcpdump": ("-z",), "psql": (), "gcc": ("-wrapper",),
    "watchexec": (), "inotifywait": (), "openvpn": ("--up", "--down"), "pg_dump": (), "bconsole": (), "ksu": ("-e",),
    "crash": (), "git-bisect": (), "dmesg": (), "mutt": (), "parallel": (), "make": (), "tail": (),
}  # fmt: skip
SHORT_NAMES: Final = (
    "rm", "dd", "chmod", "chown", "mkfs", "shred", "mv", "cp", "sh", "bash", "kill", "reboot", "find", "git", "tee", "wipefs",
    "truncate", "shutdown", "poweroff", "halt", "mkfs.ext4", "python3", "perl",
)  # fmt: skip
"""What a pattern in the place of a program's name may stand for."""
RESERVED: Final = frozenset(("", "!", "{", "}", "(", "do", "then", "else", "if", "while", "until", "coproc"))
"""What may stand before a program where the grammar has taken a word of the shell for one."""
COMPOUND: Final = names("function for select case if while until do done then fi esac [[ {")
"""What begins or ends more than one command: no program has such a name, so the grammar has read it wrong."""
LOADING: Final = names(
    "PATH LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV PROMPT_COMMAND PYTHONSTARTUP PERL5OPT PERL5LIB"
    " HISTFILE HISTSIZE HISTFILESIZE PERL5DB NODE_OPTIONS LESSOPEN LESSCLOSE PYTHONHOME RUBYOPT JAVA_TOOL_OPTIONS"
)
SHADOWED: Final = names(
    "ls cat cd echo printf grep find sort head tail sed awk git pwd test source make cp mv rm sudo ssh exit command which"
)
"""Programs that nobody expects a function to stand for."""
INDEXED: Final = names("unset read declare typeset local export readonly printf test let compgen complete")
"""Programs of the shell that run what stands in an index of a name that they are given."""
