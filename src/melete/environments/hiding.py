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

HOMES = ("/home", "/root", "/var/home", "/export/home", "/Users")
"""Where people's homes lie; the homes that the list of users names are added."""

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

SECRETS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".netrc", "_netrc", ".npmrc",
    ".yarnrc.yml", ".pypirc", ".git-credentials", ".config/git/credentials", ".config/gcloud", ".config/gh",
    ".config/glab-cli", ".config/hub", ".config/op", ".config/containers/auth.json", ".config/helm", ".config/rclone",
    ".config/sops", ".config/age", ".config/doctl", ".config/fly", ".fly", ".config/heroku", ".config/netlify",
    ".config/vercel", ".vercel", ".config/stripe", ".config/ngrok", ".ngrok2", ".terraform.d", ".terraformrc",
    ".config/pypoetry/auth.toml", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
    ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".composer/auth.json",
    ".config/composer/auth.json", ".nuget", ".config/nuget", ".pgpass", ".my.cnf", ".mylogin.cnf", ".mongorc.js",
    ".boto", ".s3cfg", ".databrickscfg", ".snowflake", ".snowsql", ".dbt", ".huggingface", ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens", ".kaggle", ".config/kaggle", ".netlify", ".oci", ".bluemix", ".aliyun",
    ".minikube", ".vault-token", ".vagrant.d", ".ansible", ".wakatime.cfg", ".ICEauthority", ".Xauthority", ".claude",
    ".claude.json", ".codex", ".gemini", ".hermes", ".melete", ".config/github-copilot", ".config/anthropic",
    ".config/openai", ".config/io.datasette.llm", ".aider.conf.yml", ".continue", ".cursor", ".env",
)  # fmt: skip
"""Keys, tokens and passwords, each where its program keeps them."""

HISTORIES = (
    ".bash_history", ".zsh_history", ".zsh_sessions", ".histfile", ".sh_history", ".ash_history",
    ".local/share/fish/fish_history", ".python_history", ".node_repl_history", ".irb_history", ".psql_history",
    ".mysql_history", ".sqlite_history", ".rediscli_history", ".mongo_history", ".dbshell", ".lesshst", ".viminfo",
    ".local/state/nvim", ".local/share/nushell", ".config/nushell/history.txt", ".wget-hsts",
)  # fmt: skip
"""What a person typed: passwords and tokens are found there."""

KEPT_BY_PROGRAMS = (
    ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
    ".config/microsoft-edge", ".config/opera", ".config/vivaldi", ".config/Slack", ".config/discord",
    ".config/Signal", ".config/Code", ".config/VSCodium", ".config/Bitwarden", ".config/1Password",
    ".config/keepassxc", ".local/share/keyrings", ".local/share/kwalletd", ".kde/share/apps/kwallet",
    ".local/share/TelegramDesktop", ".purple", ".config/evolution", ".local/share/evolution", ".var/app", "snap",
    ".electrum", ".bitcoin", ".ethereum", ".config/solana", ".cache/mozilla", ".cache/google-chrome",
    ".cache/chromium", ".config/filezilla", ".config/remmina", ".local/share/remmina", ".pki", ".config/dconf",
    ".dbus", ".config/pulse", ".local/share/Trash",
)  # fmt: skip
"""Profiles of browsers and chat programs, password stores, wallets."""

DENIED = SECRETS + HISTORIES + KEPT_BY_PROGRAMS
"""What of a home is hidden even where the home itself is shown."""

RUN_AT_LOGIN = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".zshrc",
    ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".tcshrc", ".cshrc", ".login", ".xprofile", ".xinitrc",
    ".xsession", ".xsessionrc", ".pam_environment", ".config/fish", ".config/autostart", ".config/systemd",
    ".config/environment.d", ".config/plasma-workspace", ".gitconfig", ".config/git", ".vimrc", ".vim",
    ".config/nvim", ".emacs", ".emacs.d", ".tmux.conf", ".local/bin", ".cargo/bin", "bin", "go/bin",
)  # fmt: skip
"""What runs by itself outside when a person logs in or starts a program: it can be read but not changed when a home is the
working folder."""

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
