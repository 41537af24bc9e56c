"""What a person must allow because a program is used to run another one, to read what it should not, or to run code with effects."""

from typing import Final

from melete.security.rules import Rule

CODE = (
    "python pypy perl ruby node nodejs deno bun php lua luajit tclsh Rscript R julia awk gawk mawk nawk jjs irb jrunscript octave"
    " octave-cli groovy scala elixir erl guile emacs gdb expect slsh sqlite3 bpftrace puppet jshell vim lldb gimp ipython osascript pwsh powershell"
)

ABUSE: Final[tuple[Rule, ...]] = (
    Rule(id="runs-shell", programs="*", operand="shell", but="ls which whereis type file stat test [ [[ echo printf grep rg cat chsh useradd usermod readlink"
         " realpath docker podman nerdctl kubectl oc docker-compose lxc incus crictl ctr nomad distrobox toolbox systemd-nspawn flatpak"
         " machinectl vagrant schroot arch-chroot proot-distro ssh adb heroku fly apptainer singularity git cmp diff head command sha256sum md5sum rg hash ldd objdump readelf strings apt",
         reason="makes a program run a shell", example="fzf --bind 'enter:execute(/bin/sh)'"),
    Rule(id="find-runs", programs="find gfind fd fdfind", code=r"(?m)^(?:-(?:exec|execdir|ok|okdir|x|X))\n(?:\S*/)?(?:(?:ba|da|z|k)?sh|python\d?|perl)\n(?!-\w*[ce])",
         reason="runs every file that it finds", example="find . -exec sh {} \\;"),
    Rule(id="interpreter-code-decoded", programs=CODE, inline=True, code=r"(?:exec|eval|system|Function|loads)\W*(?:\w+\W+){0,6}?(?:b64decode|base64|fromhex|unhexlify|atob|decode64|Buffer\.from|unpack|marshal|zlib|rot.?13)",
         reason="runs code that it decodes first", example="python3 -c 'exec(__import__(\"base64\").b64decode(\"cHJpbnQ=\"))'"),
    Rule(id="interpreter-code-shell", programs=CODE, inline=True, code=r"(?:__import__\(['\"](?:os|subprocess|shutil|pty|socket)|\b(?:os\.system|os\.popen|popen\d?|subprocess|exec[lv]p?e?|spawn\w*|pty|proc_open|shell_exec"
         r"|passthru|pcntl_exec|child_process|execSync|IO\.popen|os\.execute|io\.popen|qx|Process\.(?:run|start)|ProcessBuilder|Runtime|Deno\.run|shell)\b"
         r"|\bsystem\s*[('\"]|\bexec\s*[('\"]|(?:^|[=(;\s])`[^`]+`|(?m:^\s*:?!|^\.shell|^\.system|^:sh)|do shell script)",
         reason="runs other programs from inline code", example="python3 -c \"import os; os.system('make')\""),
    Rule(id="interpreter-code-deletes", programs=CODE, inline=True, code=r"\b(?:os\.(?:remove|unlink|rmdir|removedirs|truncate|rename)|rmtree|shutil\.move|\.unlink\s*\("
         r"|unlink|rmdir|rmSync|unlinkSync|rmdirSync|rm_rf?|rm_r|FileUtils\.\w*rm\w*|File\.delete|Dir\.delete|fs\.(?:rm|unlink)\w*|Deno\.remove|file\.remove"
         r"|os\.remove|remove_tree|delete_file)\b", reason="deletes or moves files from inline code", example="python3 -c \"import os; os.remove('x')\""),
    Rule(id="interpreter-code-network", programs=CODE, inline=True, code=r"(?i)\b(?:socket|SOCK_STREAM|fsockopen|TCPSocket|TCPServer|net\.(?:connect|createServer|Socket)|Net::|IO::Socket"
         r"|http\.server|/inet/(?:tcp|udp)|XMLHTTP|java\.net|urlretrieve|urlopen|createServer|open-uri|file_put_contents|https?\.(?:get|request)|LWP::)",
         reason="opens connections from inline code", example="python3 -c 'import socket; socket.socket()'"),
    Rule(id="interpreter-code-writes", programs=CODE, inline=True, reason="writes system files, keys or start-up files from inline code",
         code=r"(?i)['\"<> ](?:~|/root|/home/\w+)?/(?:etc|boot|usr|bin|sbin|lib\w*|sys|proc|\.ssh|\.aws|\.bashrc|\.profile)/?[^'\"]*['\"]?.{0,80}(?:['\"](?:w|a|r\+|wb|ab|w\+|>|>>)['\"]|write|put_contents|print)"
         r"|(?:write|>)\w*\s*\(?\s*['\"](?:/etc|/usr|/boot|/bin)/", example="python3 -c \"open('/etc/hosts', 'w').write('x')\""),
    Rule(id="interpreter-code-secrets", programs=CODE, inline=True, code=r"/etc/(?:g?shadow|sudoers)|\.ssh/id_|\.aws/credentials|\.netrc|\.env['\"]",
         reason="reads keys, passwords or other secrets from inline code", example="python3 -c \"print(open('/etc/shadow').read())\""),
    Rule(id="interpreter-privilege", programs=CODE, inline=True, code=r"\b(?:setuid|setgid|setresuid|ctypes|dlopen|chmod\s*\(|chown\s*\()", reason="changes rights from inline code",
         example="perl -e 'use POSIX; setuid(0)'"),
    Rule(id="download-and-run", programs="deno bun npx php uvx pipx", sub="run http*|http*|exec http*|x http*", reason="runs what it downloads",
         example="deno run https://example.com/x.ts"),
    Rule(id="option-runs", programs="tar bsdtar zip split sort rpm rpmquery rpmdb", reason="an option makes it run another program",
         any="--checkpoint-action* --to-command* -TT --unzip-command* --filter* --compress-program* --eval --pipe --info-script* --new-volume-script*",
         example="tar cf a.tar . --checkpoint=1 --checkpoint-action=exec=./hook"),
    Rule(id="git-runs", programs="git", reason="makes git run another program",
         code=r"(?im)^-c\n(?:core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|gitproxy)|alias\.\S+?=!|sequence\.editor|diff\.external|credential\.\S*helper|protocol\.ext|filter\.|gpg\.)"
         r"|^ext::|^--(?:upload-pack|receive-pack|exec|extcmd|open-files-in-pager)\b|^--(?:index|tree|msg|env)-filter",
         example="git -c core.pager='less +F' log"),
    Rule(id="ssh-runs", programs="ssh scp sftp", code=r"(?i)(?:proxy|local|knownhosts)command|permitlocalcommand", reason="makes ssh run a program here",
         example="ssh -o ProxyCommand='nc %h %p' host"),
    Rule(id="loader", programs="ld.so ld-linux* ld-musl*", reason="runs a program through the loader or changes what programs load", none="-p",
         example="/lib64/ld-linux-x86-64.so.2 ./tool"),
    Rule(id="preload", programs="env export", any="LD_PRELOAD* LD_LIBRARY_PATH=/tmp* LD_AUDIT* DYLD_INSERT_LIBRARIES* BASH_ENV* PROMPT_COMMAND* PYTHONSTARTUP* PERL5OPT* PERL5LIB* LESSOPEN* RUBYOPT* JAVA_TOOL_OPTIONS*",
         reason="makes programs load other code", example="env LD_PRELOAD=./x.so ls"),
    Rule(id="debugger", programs="gdb strace lldb dtrace bpftrace", any="-p --pid attach --attach --unsafe", contained=True,
         reason="reads or changes another process", example="gdb -p 1"),
    Rule(id="container-runs-host", programs="docker podman nerdctl", verb="run create exec", reason="gives a container the machine",
         code=r"(?m)^--privileged|^(?:-v|--volume|--mount)(?:=|\n)(?:\S*source=|\S*src=)?/(?::|etc|root|var/run|home:|proc|sys|,)|^--(?:pid|net|network|ipc|userns|uts)(?:=|\n)host|^--cap-add|^--device|docker\.sock|^-v/:|seccomp=unconfined",
         example="docker run -v /:/host alpine ls"),
    Rule(id="busctl", programs="busctl dbus-send gdbus", any="call set-property --address* --call", code=r"systemd1|login1|unixexec|PolicyKit",
         reason="speaks to the system's services", example="busctl call org.freedesktop.systemd1 / x Reboot"),
    Rule(id="pager-shell", programs="less more man loginctl journalctl systemctl ftp sftp telnet gdb mail ed vi mysql psql sqlite3", code=r"(?m)(?:\A|\n|^)\s*!\s*/?\w|^\\!",
         reason="runs a shell inside another program", example="more '!ls'"),
    Rule(id="make-eval", programs="make gmake", code=r"(?m)^--eval|\$\((?:shell|file)", reason="runs recipes given on the command line", example="make --eval 'x:; ls' x"),
)  # fmt: skip
