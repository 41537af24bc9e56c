"""The settings of each built-in environment, as values: what `Place.options` holds. Layer 0."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1)]
Port = Annotated[int, Meta(ge=1, le=65_535)]

MADE_AGAIN = (
    "node_modules", ".venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox",
)  # fmt: skip
"""Folders that tools make anew from the rest and that seldom work on another machine."""


class SandboxOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands on this machine behind walls."""

    walls: Annotated[
        Literal["auto", "bwrap", "landlock"],
        Meta(description="auto takes bubblewrap, and where that is missing or refused Landlock, which can do less."),
    ] = "auto"
    network: Annotated[
        Literal["allow", "off", "on"],
        Meta(
            description="allow reaches the hosts on the list only; off reaches nothing; on is this machine's own network."
        ),
    ] = "allow"
    allow: Annotated[
        tuple[str, ...],
        Meta(description="Hosts that may be reached beside the derived ones: NAME, *.NAME or NAME:PORT."),
    ] = ()
    derive: Annotated[
        bool,
        Meta(description="Also allow the servers of this machine's package managers and the folder's git remotes."),
    ] = True
    private_networks: Annotated[
        tuple[str, ...],
        Meta(description="Networks that are not public, as 10.1.0.0/16, in which hosts on the list may stand."),
    ] = ()
    loopback: Annotated[
        tuple[Port, ...], Meta(description="Ports of this machine's loopback that commands may reach.")
    ] = ()
    publish: Annotated[
        tuple[Port, ...], Meta(description="Ports of the sandbox that this machine's loopback reaches.")
    ] = ()
    show: Annotated[tuple[str, ...], Meta(description="Hidden files and folders to show, read-only.")] = ()
    hide: Annotated[tuple[str, ...], Meta(description="More files and folders to hide.")] = ()
    write: Annotated[tuple[str, ...], Meta(description="Folders that may be written beside the working folder.")] = ()
    temp_mb: Annotated[Count, Meta(description="Size of the private /tmp in megabytes.")] = 1024
    file_mb: Annotated[Count, Meta(description="The largest file that a command may write, in megabytes.")] = 4096
    keep_free_mb: Annotated[
        int,
        Meta(ge=0, description="Commands that write are stopped when the disk has less than this left, in megabytes."),
    ] = 512
    processes: Annotated[Count, Meta(description="The most processes at a time.")] = 512


class DockerOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands in a container of Docker or Podman."""

    command: Annotated[str, Meta(description="The client: docker or podman, or a path to one.")] = "docker"
    host: Annotated[
        str, Meta(description="The engine's address, as DOCKER_HOST has it; empty is the client's own choice.")
    ] = ""
    image: Annotated[str, Meta(description="The image to start from.")] = "nikolaik/python-nodejs:latest"
    network: Annotated[
        str, Meta(description="off, on (the engine's default network), or the name of a network of the engine.")
    ] = "off"
    workspace: Annotated[
        Literal["mount", "none"],
        Meta(description="mount shows the working folder at /workspace; none shows nothing of here."),
    ] = "mount"
    volumes: Annotated[tuple[str, ...], Meta(description="More mounts as HERE:THERE or HERE:THERE:ro.")] = ()
    variables: Annotated[tuple[str, ...], Meta(description="Variables of here that commands in it see.")] = ()
    user: Annotated[str, Meta(description="UID:GID inside; empty is the owner of the working folder.")] = ""
    cpus: Annotated[float, Meta(gt=0, description="Processors.")] = 1.0
    memory_mb: Annotated[Count, Meta(description="Memory in megabytes.")] = 5120
    disk_mb: Annotated[
        int,
        Meta(
            ge=0,
            description="The largest file in megabytes, and all of the container where the engine can limit it; 0 is no limit.",
        ),
    ] = 51_200
    processes: Annotated[Count, Meta(description="The most processes at a time.")] = 512
    keep: Annotated[
        bool, Meta(description="Keep the container for when the session goes on; otherwise it is thrown away.")
    ] = False


class SshOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands on another machine through OpenSSH."""

    host: Annotated[str, Meta(description="The machine: a name of your ssh config, or an address.")] = ""
    user: Annotated[str, Meta(description="The user there; empty is ssh's own choice.")] = ""
    port: Annotated[int, Meta(ge=0, le=65_535, description="The port; 0 is ssh's own choice.")] = 0
    key: Annotated[str, Meta(description="The private key's file; empty is ssh's own choice.")] = ""
    known_hosts: Annotated[str, Meta(description="The file of known host keys; empty is ssh's own choice.")] = ""
    config: Annotated[str, Meta(description="The ssh config file; empty is ssh's own choice.")] = ""
    cwd: Annotated[str, Meta(description="The working folder there; empty is the home folder there.")] = ""
    variables: Annotated[tuple[str, ...], Meta(description="Variables of here that commands there see.")] = ()
    connect_seconds: Annotated[Count, Meta(description="Seconds to wait for a connection.")] = 15
    sync: Annotated[
        bool, Meta(description="Copy the working folder there, and what changes there back while commands run.")
    ] = False
    sync_mb: Annotated[Count, Meta(description="The most megabytes that are copied in one direction.")] = 2048
    sync_skip: Annotated[
        tuple[str, ...], Meta(description="Names of files and folders that are not copied in either direction.")
    ] = MADE_AGAIN


class ModalOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands in a sandbox of Modal."""

    mode: Annotated[
        Literal["direct", "managed"],
        Meta(description="direct uses your own token; managed goes through the gateway at `gateway`."),
    ] = "direct"
    gateway: Annotated[str, Meta(description="Address of the gateway that manages sandboxes for you.")] = ""
    app: Annotated[str, Meta(description="The app that the sandboxes belong to.")] = "melete"
    image: Annotated[str, Meta(description="The image to start from.")] = "nikolaik/python-nodejs:latest"
    workspace: Annotated[str, Meta(description="The working folder there.")] = "/workspace"
    variables: Annotated[tuple[str, ...], Meta(description="Variables of here that commands there see.")] = ()
    cpus: Annotated[float, Meta(gt=0, description="Processors.")] = 1.0
    memory_mb: Annotated[Count, Meta(description="Memory in megabytes.")] = 5120
    seconds: Annotated[Count, Meta(description="The longest life of a sandbox in seconds.")] = 86_400
    idle_minutes: Annotated[
        int, Meta(ge=0, description="Minutes without a command after which the sandbox ends; 0 is never.")
    ] = 60
    network: Annotated[Literal["off", "on"], Meta(description="Whether commands reach the network.")] = "on"
    keep: Annotated[bool, Meta(description="Keep a snapshot of the files for when the session goes on.")] = True
    sync: Annotated[bool, Meta(description="Copy the working folder there at the start and what changed back.")] = True
    sync_mb: Annotated[Count, Meta(description="The most megabytes that are copied in one direction.")] = 2048
    sync_skip: Annotated[
        tuple[str, ...], Meta(description="Names of files and folders that are not copied in either direction.")
    ] = MADE_AGAIN


class DaytonaOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands in a sandbox of Daytona."""

    api_url: Annotated[str, Meta(description="Address of the API; empty is the library's own.")] = ""
    target: Annotated[str, Meta(description="The region; empty is the account's own.")] = ""
    image: Annotated[str, Meta(description="The image to start from; empty is the account's default snapshot.")] = ""
    workspace: Annotated[str, Meta(description="The working folder there.")] = "/home/daytona/workspace"
    network: Annotated[Literal["off", "on"], Meta(description="Whether commands reach the network.")] = "on"
    idle_minutes: Annotated[
        int, Meta(ge=0, description="Minutes without a request after which the sandbox stops; 0 is never.")
    ] = 60
    variables: Annotated[tuple[str, ...], Meta(description="Variables of here that commands there see.")] = ()
    cpus: Annotated[Count, Meta(description="Processors, where an image is given.")] = 1
    memory_gb: Annotated[Count, Meta(description="Memory in gigabytes, where an image is given.")] = 5
    disk_gb: Annotated[Count, Meta(description="Disk in gigabytes, where an image is given.")] = 10
    keep: Annotated[bool, Meta(description="Keep the sandbox, stopped, for when the session goes on.")] = True
    sync: Annotated[bool, Meta(description="Copy the working folder there at the start and what changed back.")] = True
    sync_mb: Annotated[Count, Meta(description="The most megabytes that are copied in one direction.")] = 2048
    sync_skip: Annotated[
        tuple[str, ...], Meta(description="Names of files and folders that are not copied in either direction.")
    ] = MADE_AGAIN


class ApptainerOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands in a container of Apptainer or Singularity."""

    command: Annotated[str, Meta(description="The program: apptainer or singularity, or a path to one.")] = "apptainer"
    image: Annotated[str, Meta(description="The image to start from: a file or an address.")] = (
        "docker://nikolaik/python-nodejs:latest"
    )
    network: Annotated[Literal["off", "on"], Meta(description="Whether commands reach the network.")] = "off"
    volumes: Annotated[tuple[str, ...], Meta(description="More mounts as HERE:THERE or HERE:THERE:ro.")] = ()
    variables: Annotated[tuple[str, ...], Meta(description="Variables of here that commands there see.")] = ()
    userns: Annotated[bool, Meta(description="Run in a user namespace even where the program is set up as root.")] = (
        False
    )
    extra: Annotated[tuple[str, ...], Meta(description="More words for `apptainer instance start`, such as --nv.")] = ()
    cpus: Annotated[float, Meta(gt=0, description="Processors, where limits are supported.")] = 1.0
    memory_mb: Annotated[Count, Meta(description="Memory in megabytes, where limits are supported.")] = 5120
    keep: Annotated[bool, Meta(description="Keep what commands write outside the working folder, in an overlay.")] = (
        False
    )
