"""What nobody may allow: commands that destroy a machine, its disks or a person's whole home."""

from typing import Final

from melete.security.plan import FORK_BOMB
from melete.security.rules import Rule

DELETERS = "rm srm wipe unlink trash gio rmdir shred grm"
INTERPRETERS = "perl ruby node nodejs deno bun php lua luajit julia"
EVERYWHERE = "root system home"

NARROWED = (
    r"(?:(?!(?:-delete|-not|!|-or?|,)\n)[^\n]*\n)*?(?:-empty\n|-(?:i?name|i?path|i?regex|[acm]time|[acm]min|newer\w*|size|user|group|maxdepth|inum|samefile|perm)\n"
    r"(?!(?:\*+|\.\*|\+?0\w?|/\*|-\S+)\n)[^\n]+\n)(?:(?!(?:-not|!|-or?|,)\n)[^\n]*\n)*?-delete\n"
)
"""Arguments of `find` among which a test stands before `-delete` that leaves something out."""

OWN = r"\A(?:-\S+\n(?:(?!(?:policy|sessions|config|serve|skills|memory|learn|pairing|restore|import|run|chat)\n)[^\n-]\S*\n)?)*"
"""The options before a command of the agent's own program."""
OWN_READS = (
    r"sessions\n(?:list|show|search|stats|tree|export)|policy\nexplain|config\n(?:get|check|path|schema)|context|doctor|insights|logs|verify|check|completion"
    r"|model|tools|env\n(?:list|check)|skills\n(?:list|show|search|scan|history|diff|why|stats)|memory\n(?:show|history)|learn\n(?:inbox|show|why|report|blame)"
    r"|cron\n(?:list|history)|serve\nkeys\nlist|demo"
)
"""Its commands that change nothing."""
WRITERS = (
    "cp mv install ln rsync tee dd sponge rm unlink rmdir truncate shred ed ex vi vim nvim nano emacs patch chmod chown touch rename scp sqlite3 chattr setfacl"
    " curl wget srm trash"
)
SKILL_WRITERS = "mv tee dd truncate ed ex vi vim nvim nano emacs patch chmod chown touch rename mkdir chattr setfacl curl wget sqlite3"
"""Programs that change what they name, wherever it stands among their words."""

OWN_READERS = (
    "ls ll cat head tail less more bat grep egrep fgrep rg ag diff cmp stat file wc du find fd tree test [ [[ cd pushd echo printf jq sed awk gawk"
    " perl ruby python tar bsdtar unzip gfind md5sum sha256sum cksum realpath readlink basename dirname strings xxd od hexdump nl melete"
    " git ssh env sudo sh bash zsh dash kubectl docker podman mkdir for which type column sum base64 cut uniq"
)
"""What may name them without changing them, or is judged by a rule of its own."""

FORBIDDEN: Final[tuple[Rule, ...]] = (
    Rule(id="delete-system", verdict="forbid", programs=DELETERS, any="-r -R --recursive -d", operand=EVERYWHERE, none="--help",
         reason="deletes the whole system, a system folder or a home folder", example="rm -rf /"),
    Rule(id="delete-critical", verdict="forbid", programs=DELETERS, operand="critical",
         reason="deletes a file that the system cannot start or log in without", example="rm /etc/passwd"),
    Rule(id="no-preserve-root", verdict="forbid", programs="rm chmod chown chgrp", any="--no-preserve-root",
         reason="switches off the protection of the root folder", example="chmod -R --no-preserve-root 000 srv"),
    Rule(id="find-delete-system", verdict="forbid", programs="find gfind", all="-delete", operand=EVERYWHERE, code=rf"\A(?!{NARROWED})",
         reason="deletes everything under a system folder or a home", example="find / -delete"),
    Rule(id="permissions-system", verdict="forbid", programs="chmod chown chgrp setfacl chattr", any="-R --recursive",
         operand=EVERYWHERE, reason="changes the permissions of a whole system or home", example="chmod -R 777 /"),
    Rule(id="permissions-root", verdict="forbid", programs="chmod chown", operand="root",
         reason="changes the permissions of the root folder", example="chmod 000 /"),
    Rule(id="move-system", verdict="forbid", programs="mv",
         code=r"\A(?:-\S+\n)*/(?:\*|(?:bin|boot|dev|etc|home|lib\w*|opt|proc|root|sbin|srv|sys|usr|var|System|Library|Users)(?:/\*?)?)?\n|\A(?:-\S+\n)*(?:~|/root|/(?:home|Users)/[^/\n]+)/?\n",
         reason="moves a system folder or a home away", example="mv /etc /tmp/etc"),
    Rule(id="move-to-null", verdict="forbid", programs="mv", all="/dev/null", operand=f"{EVERYWHERE} critical",
         reason="moves a system folder or a home to nowhere", example="mv /etc/passwd /dev/null"),
    Rule(id="mirror-over-system", verdict="forbid", programs="rsync robocopy", any="--delete*", operand=EVERYWHERE, code=r"\n(?:~|/root|/(?:home|Users)/[^/\n]+|/[^/\n]*)/?(?:\n-\S*)*\s*\Z",
         none="-n --dry-run", reason="makes a system folder equal to another one, deleting the rest", example="rsync -a --delete empty/ /"),
    Rule(id="own-policy", verdict="forbid", programs="melete", reason="answers the agent's own questions, or changes what it may do",
         code=OWN + r"(?:policy\n(?!explain\n)\S|sessions\n(?:answer|steer)\n|config\n(?!(?:get|check|path|schema)\n)\S|serve\n(?:-\S+\n)*keys\n(?!list\n)\S"
         r"|skills\n(?:new|edit|revert|(?:un)?pin|archive|restore|(?:un)?install|update|sync|reset|setup)\n|memory\n(?:edit|revert|forget)\n|learn\n(?:accept|reject|undo)\n|pairing\n(?!list)\S|(?:restore|import)\n"
         r"|(?:run|chat)\n(?:[^\n]*\n)*?--yolo\n)", example="melete sessions answer 4 yes"),
    Rule(id="own-server", verdict="forbid", programs="curl wget http https xh httpie python pypy ipython node nodejs perl ruby php", reason="answers the agent's own questions",
         code=r"/(?:v1/runs|v1/responses|api/sessions)/[^/\s'\"]+/(?:answer|steer|input|approve)\b",
         example="curl -X POST http://127.0.0.1:8642/v1/runs/7/answer -d '{}'"),
    Rule(id="own-files-written", verdict="forbid", programs="*", redirect="own", reason="changes this agent's settings, keys, grants or records",
         example="echo 'approvals: {mode: off}' >> ~/.melete/config.yaml"),
    Rule(id="own-files", verdict="forbid", programs=WRITERS, operand="own", reason="changes this agent's settings, keys, grants or records",
         example="cp open.yaml ~/.melete/config.yaml"),
    Rule(id="own-files-named", verdict="forbid", programs="*", operand="own", reason="changes this agent's settings, keys, grants or records",
         but=OWN_READERS, example="yq -i .a=1 ~/.melete/config.yaml"),
    Rule(id="own-files-sed", verdict="forbid", programs="sed gsed awk gawk", code=r"[>w]\s*\"?\S*\.melete/(?:config|\.env|grants|state)",
         reason="changes this agent's settings, keys, grants or records", example="sed 'w .melete/config.yaml' x"),
    Rule(id="own-files-edited", verdict="forbid", programs="sed perl ruby awk gawk", any="-i -i* --in-place* inplace", operand="own",
         reason="changes this agent's settings, keys, grants or records", example="sed -i s/manual/off/ ~/.melete/config.yaml"),
    Rule(id="own-files-unpacked", verdict="forbid", programs="tar bsdtar unzip find gfind fd", any="-x* x* --extract --directory -C -d -delete -exec -execdir -X --exec",
         operand="own", reason="changes this agent's settings, keys, grants or records", example="tar xf a.tar -C ~/.melete"),
    Rule(id="own-files-code", verdict="forbid", programs=f"{INTERPRETERS} awk gawk tclsh R", inline=True, code=r"\.melete/(?:config|\.env|grants|state)",
         reason="changes this agent's settings, keys, grants or records", example="ruby -e 'File.write(ENV[\"HOME\"] + \"/.melete/config.yaml\", \"\")'"),
    Rule(id="own-skills-written", verdict="forbid", programs="*", redirect="skills", reason="changes skills behind the library's back: use skill_manage",
         example="echo 'Do it.' > ~/.melete/skills/user/demo/SKILL.md"),
    Rule(id="own-skills-copied", verdict="forbid", programs="cp install ln rsync scp sponge", last=True, operand="skills",
         reason="changes skills behind the library's back: use skill_manage", example="cp demo.md ~/.melete/skills/user/demo/SKILL.md"),
    Rule(id="own-skills-cloned", verdict="forbid", programs="git hg svn", sub="clone|init|worktree add|submodule add|checkout|export", operand="skills",
         reason="changes skills behind the library's back: use skill_manage", example="git clone https://example.com/x ~/.melete/skills/user/demo"),
    Rule(id="own-skills", verdict="forbid", programs=f"{SKILL_WRITERS} {DELETERS}", operand="skills",
         reason="changes skills behind the library's back: use skill_manage", example="mv demo ~/.melete/skills/user/demo"),
    Rule(id="own-skills-edited", verdict="forbid", programs="sed perl ruby awk gawk", any="-i -i* --in-place* inplace", operand="skills",
         reason="changes skills behind the library's back: use skill_manage", example="sed -i s/a/b/ ~/.melete/skills/user/demo/SKILL.md"),
    Rule(id="own-skills-unpacked", verdict="forbid", programs="tar bsdtar unzip 7z cpio find gfind fd", any="-x* x* --extract -C -d --directory -delete -exec -execdir -X --exec",
         operand="skills", reason="changes skills behind the library's back: use skill_manage", example="unzip demo.zip -d ~/.melete/skills/user"),
    Rule(id="own-skills-code", verdict="forbid", programs=f"{INTERPRETERS} awk gawk tclsh R", inline=True, code=r"\.melete/(?:profiles/[^/\s]+/)?skills",
         reason="changes skills behind the library's back: use skill_manage", example="ruby -e 'File.write(ENV[\"HOME\"] + \"/.melete/skills/user/x/SKILL.md\", \"\")'"),
    Rule(id="make-filesystem", verdict="forbid", programs="mkfs mkfs.* mke2fs mkswap newfs newfs_* mkdosfs mkntfs mkudffs",
         operand="device", none="--help --version", reason="formats a disk", example="mkfs.ext4 /dev/sda1"),
    Rule(id="wipe-disk", verdict="forbid", programs="wipefs", any="-a --all -o --offset", reason="wipes the signatures of a disk",
         example="wipefs -a /dev/sda"),
    Rule(id="discard-disk", verdict="forbid", programs="blkdiscard", reason="discards what is on a disk", example="blkdiscard /dev/sda"),
    Rule(id="raw-device", verdict="forbid", programs="*", redirect="device", reason="writes over a disk", example="cat image > /dev/sda"),
    Rule(id="raw-device-write", verdict="forbid", programs="dd dcfldd dc3dd ddrescue", code=r"(?m)^of=/dev/(?!null|stdout|stderr|fd/|tty|zero|shm|pts)",
         reason="writes over a disk", example="dd if=/dev/zero of=/dev/sda bs=1M"),
    Rule(id="raw-device-copy", verdict="forbid", programs="tee cp shred badblocks pv install truncate scrub nwipe sponge rsync", operand="device",
         none="--help", reason="writes over a disk", example="cp image.iso /dev/sda"),
    Rule(id="raw-device-output", verdict="forbid", programs="*", any="-o -O --output* -b --block", reason="writes over a disk",
         code=r"(?m)^(?:-\w*[oO]\n?|--output(?:-document)?[=\n])/dev/(?:sd|hd|vd|nvme|mmcblk|mapper/|disk|md\d)", example="wget -O /dev/sda https://example.com/image"),
    Rule(id="raw-device-image", verdict="forbid", programs="qemu-img ntfsclone partclone.* dd_rescue fsarchiver virt-resize", reason="writes over a disk",
         code=r"\A(?!info\n|check\n|map\n|savefs\n)[\s\S]*(?:\A|\n)/dev/(?:sd|hd|vd|nvme|mmcblk|mapper/|disk|md\d)\S*(?:\n\d+\w?)?\n?\Z",
         example="qemu-img convert disk.img /dev/sdb"),
    Rule(id="critical-write", verdict="forbid", programs="dd cp truncate shred", operand="critical",
         code=r"(?m)^of=/|^-[su]|/dev/(?:null|zero|u?random)|^-\w*s", reason="empties a file that the system cannot start or log in without",
         example="cp /dev/null /etc/passwd"),
    Rule(id="critical-tee", verdict="forbid", programs="tee sponge", operand="critical", none="-a --append",
         reason="overwrites a file that the system cannot start or log in without", example="echo x | tee /etc/passwd"),
    Rule(id="secure-erase", verdict="forbid", programs="hdparm", any="--security-erase* --trim-sector-ranges --make-bad-sector --write-sector"
         " --repair-sector", reason="erases a disk in its own firmware", example="hdparm --security-erase p /dev/sda"),
    Rule(id="nvme-format", verdict="forbid", programs="nvme", sub="format|sanitize|delete-ns|write|write-zeroes|dsm|fw-download|fw-commit",
         reason="erases a disk in its own firmware", example="nvme format /dev/nvme0n1"),
    Rule(id="sg-format", verdict="forbid", programs="sg_format sg_sanitize sg_write_same sedutil-cli", none="--scan --query --help",
         reason="erases a disk in its own firmware", example="sg_format --format /dev/sdb"),
    Rule(id="partition-table", verdict="forbid", programs="parted gparted", any="mklabel mktable rm",
         reason="changes a disk's partition table", example="parted -s /dev/sda mklabel gpt"),
    Rule(id="partition-write", verdict="forbid", programs="sfdisk fdisk gdisk", operand="device", code=r"\n[^\n]+\Z|\n[\s\S]*\S\n\Z|\A/dev/\S+\n\Z",
         none="-l --list -d --dump -s -J --json -V --verify -h", reason="changes a disk's partition table", example="sfdisk /dev/sda"),
    Rule(id="partition-zap", verdict="forbid", programs="sgdisk",
         any="-Z -z -o -d -n -l -R -G -s -m -g --zap* --clear --delete* --new* --load-backup* --replicate* --sort --mbrtogpt --gpttombr",
         reason="changes a disk's partition table", example="sgdisk --zap-all /dev/sda"),
    Rule(id="disk-keys", verdict="forbid", programs="cryptsetup", sub="luksErase|erase|luksFormat|format|luksKillSlot|luksRemoveKey|reencrypt|*",
         any="luksErase erase luksFormat luksKillSlot luksRemoveKey reencrypt", reason="destroys an encrypted disk's keys or its contents",
         example="cryptsetup luksErase /dev/sda2"),
    Rule(id="mac-disks", verdict="forbid", programs="diskutil", code=r"(?im)^(?:erase\w+|zeroDisk|randomDisk|secureErase|partitionDisk|reformat"
         r"|splitPartition|mergePartitions|deleteContainer|deleteVolume)\s*$", reason="erases a disk",
         example="diskutil eraseDisk JHFS+ Blank disk2"),
    Rule(id="mac-disk-images", verdict="forbid", programs="asr", any="--erase -erase", reason="restores over a disk",
         example="asr restore --source a.dmg --target /dev/disk2 --erase"),
    Rule(id="volumes", verdict="forbid", programs="zpool zfs", sub="destroy|labelclear", reason="destroys a storage pool or file system",
         example="zpool destroy tank"),
    Rule(id="logical-volumes", verdict="forbid", programs="lvremove vgremove pvremove", none="-t --test --help",
         reason="removes disk volumes", example="lvremove -f vg0/root"),
    Rule(id="raid", verdict="forbid", programs="mdadm", any="--zero-superblock", reason="destroys a disk array",
         example="mdadm --zero-superblock /dev/sdb1"),
    Rule(id="firmware", verdict="forbid", programs="flashrom afuefi fwupdtool efi-updatevar", any="-w --write -E --erase install -f*",
         reason="writes the machine's firmware", example="flashrom -w rom.bin"),
    Rule(id="boot-entries", verdict="forbid", programs="efibootmgr", any="-B --delete-bootnum -O --delete-bootorder",
         reason="deletes what the machine starts from", example="efibootmgr -b 0 -B"),
    Rule(id="mac-firmware", verdict="forbid", programs="nvram firmwarepasswd", any="-c -setpasswd",
         reason="clears the machine's start-up variables", example="nvram -c"),
    Rule(id="kernel-trigger", verdict="forbid", programs="*", redirect="kernel", reason="makes the kernel stop or restart the machine",
         example="echo c > /proc/sysrq-trigger"),
    Rule(id="kernel-trigger-tee", verdict="forbid", programs="tee dd cp sponge", operand="kernel",
         reason="makes the kernel stop or restart the machine", example="echo b | tee /proc/sysrq-trigger"),
    Rule(id="overwrite-critical", verdict="forbid", programs="true : cat echo printf", redirect="critical", but="tee",
         reason="overwrites a file that the system cannot start or log in without", example=": > /etc/passwd"),
    Rule(id="fork-bomb", verdict="forbid", programs=FORK_BOMB, reason="a fork bomb", example=":(){ :|:& };:"),
    Rule(id="fork-bomb-code", verdict="forbid", programs="perl python ruby php", code=r"fork\s*(?:\(\))?\s*while\s+(?:fork|true|1)|while\s*(?:\(?\s*(?:1|True|true)\s*\)?)"
         r"\s*[:{]?\s*(?:do\s*)?(?:os\.)?(?:pcntl_)?fork", reason="a fork bomb", example="perl -e 'fork while fork'"),
    Rule(id="power", verdict="forbid", programs="shutdown reboot halt poweroff", none="-c --help -k --version",
         reason="stops the machine", example="shutdown -h now"),
    Rule(id="power-init", verdict="forbid", programs="init telinit", sub="0|6|1|s|S", reason="stops the machine", example="init 0"),
    Rule(id="power-systemd", verdict="forbid", programs="systemctl loginctl", reason="stops the machine", example="systemctl poweroff",
         sub="reboot|poweroff|halt|kexec|soft-reboot|rescue|emergency|isolate poweroff.target|isolate reboot.target"
         "|start poweroff.target|start reboot.target|start halt.target"),
    Rule(id="power-bus", verdict="forbid", programs="busctl dbus-send gdbus", code=r"(?i)login1[\s\S]*(?:PowerOff|Reboot|Halt|KExec)|systemd1[\s\S]*\b(?:PowerOff|Reboot|Halt|KExec)",
         reason="stops the machine", example="busctl call org.freedesktop.login1 /x org.freedesktop.login1.Manager PowerOff b 0"),
    Rule(id="kexec", verdict="forbid", programs="kexec", any="-e --exec -f", reason="replaces the running kernel", example="kexec -e"),
    Rule(id="power-script", verdict="forbid", programs="osascript", code=r"(?i)to\s+(?:shut\s*down|restart)\b", reason="stops the machine",
         example="osascript -e 'tell application \"System Events\" to shut down'"),
    Rule(id="kill-all", verdict="forbid", programs="kill", any="-1", code=r"(?m)(?:^-\w+\n(?:\w+\n)?(?:--\n)?|^--\n|\A)-1\s*\Z",
         reason="ends every process", example="kill -9 -1"),
    Rule(id="kill-init", verdict="forbid", programs="kill", code=r"(?m)(?<!-s\n)(?<!-n\n)^1$", none="-0 -l -L", reason="ends the first process, and the machine with it",
         example="kill -9 1"),
    Rule(id="kill-all-tools", verdict="forbid", programs="killall5", reason="ends every process", example="killall5 -9"),
    Rule(id="kill-by-pattern", verdict="forbid", programs="pkill killall skill", code=r"(?m)^(?:\.|\.\*|''|\.\+|init|systemd|launchd)$",
         reason="ends every process", example="pkill -9 ."),
    Rule(id="code-deletes-system", verdict="forbid", programs=INTERPRETERS, inline=True, code=r"""(?:rmtree|rm_rf?|rm_r|remove_entry_secure|rmSync|rmdirSync|rimraf|rmdir|remove_dir_all|remove_tree|deltree)"""
         r"""\s*\(?\s*(?:r|Path\(|\[)*\s*['"](?:/|/\*|~/?|/(?:bin|boot|dev|etc|home|lib\w*|opt|root|sbin|srv|sys|usr|var|Users|System)/?\*?|/home/[\w.-]+/?)['"]""",
         reason="deletes the whole system, a system folder or a home folder",
         example="ruby -e 'require \"fileutils\"; FileUtils.rm_rf(\"/\")'"),
    Rule(id="tcl-deletes-system", verdict="forbid", programs="tclsh expect wish", inline=True, code=r"\bfile\s+delete\s+(?:-\S+\s+)*[\"{]?(?:/|~)/?[\w.]*[\"}]?\s*(?:$|[;\]])",
         reason="deletes the whole system, a system folder or a home folder", example="tclsh <<< 'file delete -force /'"),
    Rule(id="powershell-deletes-system", verdict="forbid", programs="pwsh powershell", inline=True, reason="deletes the whole system, a system folder or a home folder",
         code=r"""(?i)\b(?:Remove-Item|rm|rmdir|rd|ri|del|erase)\b[^;|\n]{0,200}?\s['"]?(?:/|/(?:etc|usr|bin|home|var|Users|System)/?|[a-z]:\\*(?:Windows|Users)?\\*|~/?|\$HOME|\$env:\w+)\*?['"]?(?:\s|$|;|\|)""",
         example="pwsh -c 'Remove-Item -Recurse -Force /'"),
    Rule(id="code-writes-device", verdict="forbid", programs="perl ruby node php lua nodejs", inline=True,
         code=r"""(?:open|fopen|File\.\w+|createWriteStream|writeFile\w*|write_bytes|Path)\s*\(?\s*['"][+>]*\s*/dev/(?:sd|hd|vd|nvme|mmcblk|disk|mapper|mem)""",
         reason="writes over a disk", example="ruby -e 'File.open(\"/dev/sda\", \"wb\") { |f| f.write(0) }'"),
)  # fmt: skip
