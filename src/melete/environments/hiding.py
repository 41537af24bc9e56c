"""What a sandbox hides of this machine, and what it shows all the same: lists, to be read and added to.

Paths without a leading slash are relative to a person's home folder. A name that does not exist costs nothing.
"""

SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr",
    "/var/run",
)  # fmt: skip
"""Folders of the system: neither they nor what is in them is ever a working folder that may be written."""

WITHIN_SYSTEM = ("/usr/local/src", "/usr/src", "/usr/local/share")
"""But what is in these may be one."""

WHOLE = ("/", "/home", "/mnt", "/media", "/opt", "/srv", "/tmp", "/usr/local", "/var", "/var/lib", "/var/tmp")  # noqa: S108
"""Folders that hold what belongs to many: they themselves are never a working folder that may be written."""

SOCKETS = ("/run", "/var/run")
"""Where services listen, that of Docker among them."""

NEEDED_OF_RUN = (
    "/run/current-system", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf",
    "/run/host/etc",
)  # fmt: skip
"""What programs read there and is no service."""

NEEDED_OF_SYS = ("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage")
"""What programs ask about the machine: how many processors, and how large pages are."""

KERNEL = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/key-users", "/proc/kmsg",
    "/proc/kpagecount", "/proc/kpageflags", "/proc/mtrr", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
    "/proc/slabinfo", "/proc/timer_list", "/proc/vmallocinfo",
)  # fmt: skip
"""What the kernel tells of the whole machine."""

GIT_SETTINGS = (".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes")
"""Who a person is to git, and what they ignore; a file with a token in it is not shown."""

TOOLCHAINS: dict[str, tuple[str, ...]] = {
    ".cargo/bin": (".cargo/bin", ".cargo/env", ".rustup"),
    ".rustup": (".rustup",),
    ".pyenv": (".pyenv",),
    ".rbenv": (".rbenv",),
    ".nodenv": (".nodenv",),
    ".goenv": (".goenv",),
    ".jenv": (".jenv",),
    ".asdf": (".asdf",),
    ".nvm": (".nvm",),
    ".fnm": (".fnm",),
    ".local/share/fnm": (".local/share/fnm",),
    ".volta": (".volta",),
    ".bun": (".bun/bin",),
    ".deno": (".deno/bin",),
    ".sdkman": (".sdkman/candidates",),
    ".ghcup": (".ghcup/bin", ".ghcup/ghc", ".ghcup/hls"),
    ".juliaup": (".juliaup", ".julia/juliaup"),
    ".elan": (".elan",),
    ".opam": (".opam",),
    ".dotnet": (".dotnet",),
    ".foundry": (".foundry/bin",),
    ".krew": (".krew/bin", ".krew/store"),
    ".poetry": (".poetry/bin", ".poetry/lib"),
    ".npm-global": (".npm-global/bin", ".npm-global/lib"),
    ".yarn": (".yarn/bin",),
    ".local/share/pnpm": (".local/share/pnpm",),
    ".local/share/mise": (".local/share/mise", ".config/mise"),
    ".local/bin": (
        ".local/bin",
        ".local/lib",
        ".local/share/uv",
        ".local/share/pipx",
        ".local/pipx",
        ".local/share/mise",
    ),
    "go/bin": ("go/bin",),
    "bin": ("bin",),
}
"""Tools that people install into their home: where the PATH leads below the name on the left, the folders that they need."""

ENTRIES = ("bin", "sbin", "shims", "Scripts")
"""How a folder on the PATH is called whose parent holds the rest of the tools, such as a virtual environment's."""

SOCKET_VARIABLES = frozenset({
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "PULSE_SERVER", "TMUX", "TMUX_PANE", "STY",
    "DOCKER_HOST", "CONTAINER_HOST", "KUBECONFIG", "LISTEN_FDS", "NOTIFY_SOCKET", "GNOME_KEYRING_CONTROL",
    "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE",
})  # fmt: skip
"""Variables that lead to services which are out of reach."""

TEMP_VARIABLES = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
"""Variables that name the folder for temporary files."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""Devices that every program may use."""

PACKAGES = frozenset({"dpkg", "apt", "rpm", "pacman", "apk", "portage", "xbps"})
"""Folders of /var/lib and /var/cache that tell which software is installed; they hold no secrets and many files."""

LOOKED_THROUGH = (("/etc", 5), ("/var", 3), ("/usr/local/etc", 3), ("/opt", 2), ("/srv", 2), ("/", 1))
"""Where an administrator's sandbox looks for what other users may not read, and how many folders deep."""
