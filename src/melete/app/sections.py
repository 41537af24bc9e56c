"""The sections of the settings: every key that a person can set, its type and its default. Part of the composition root, pure.

Each key's `description` is its documentation: the JSON Schema and the reference page are made of it.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from melete.app import sizes
from melete.app.sections_delegation import DelegationSettings, VerifySettings
from melete.core.places import (
    ApptainerOptions,
    DaytonaOptions,
    DockerOptions,
    ModalOptions,
    SandboxOptions,
    SshOptions,
)

Share = Annotated[float, Meta(gt=0, le=1)]
Seconds = Annotated[float, Meta(gt=0)]
Dollars = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Window = Annotated[int, Meta(ge=1024)]
Size = Annotated[str, Meta(pattern=sizes.PATTERN)]
Temperature = Annotated[float, Meta(ge=0, le=2)]


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a model may be silent."""

    connect: Annotated[Seconds, Meta(description="Seconds to wait for a connection to the provider.")] = 10.0
    first_token: Annotated[Seconds, Meta(description="Seconds to wait for the first piece of a reply.")] = 120.0
    between_tokens: Annotated[Seconds, Meta(description="Seconds to wait between two pieces of a reply.")] = 60.0


class Fallback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A model that stands in for another: as `model.*`; `key_variable` names the variable that holds its key."""

    name: str
    provider: str = ""
    base_url: str = ""
    wire: str = ""
    context_length: Window | None = None
    key_variable: str = ""


class Provider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A server of one's own under a name; its key stands in `key_variable`, or in NAME_API_KEY."""

    base_url: str
    wire: str = "openai-chat"
    key_variable: str = ""
    context_length: Window | None = None


class Routing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Short, simple messages may go to a cheaper model."""

    enabled: Annotated[bool, Meta(description="Let a cheaper model answer short and simple messages.")] = False
    model: Annotated[str, Meta(description="The cheaper model, as [PROVIDER/]NAME.")] = ""
    max_chars: Annotated[Count, Meta(description="Characters that a simple message has at most.")] = 160
    max_words: Annotated[Count, Meta(description="Words that a simple message has at most.")] = 28


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model answers, and where it is."""

    name: Annotated[str, Meta(description="The model, as NAME or PROVIDER/NAME.")] = ""
    provider: Annotated[str, Meta(description="The vendor from the catalogue; the name is then taken whole.")] = ""
    base_url: Annotated[str, Meta(description="Address of the API; the name is then taken whole.")] = ""
    wire: Annotated[str, Meta(description="Wire format; empty is the vendor's own, openai-chat for a base URL.")] = ""
    context_length: Annotated[
        Window | None, Meta(description="Tokens that the model can read; null takes what is known, else 128,000.")
    ] = None
    fallbacks: Annotated[
        tuple[str | Fallback, ...],
        Meta(
            description="Models that answer, in this order, while the model cannot: [PROVIDER/]NAME, or a section each."
        ),
    ] = ()
    fallback_cooldown: Annotated[
        Seconds, Meta(description="Seconds for which a model that failed rests while a fallback answers.")
    ] = 60.0
    key_strategy: Annotated[
        Literal["fill_first", "round_robin", "random", "least_used"],
        Meta(description="Which of several keys (NAME, NAME_2, NAME_3 …) is used next."),
    ] = "fill_first"
    effort: Annotated[
        Literal["", "none", "minimal", "low", "medium", "high", "xhigh"],
        Meta(description="How hard the model thinks; empty leaves it to the provider."),
    ] = ""
    temperature: Annotated[Temperature | None, Meta(description="Sampling temperature; null is the model's own.")] = (
        None
    )
    max_output: Annotated[Count | None, Meta(description="Tokens of one reply at most; null is the model's own.")] = (
        None
    )
    cache_ttl: Annotated[
        Literal["5m", "1h"], Meta(description="How long a prompt stays cached, where the provider lets one choose.")
    ] = "5m"
    service_tier: Annotated[str, Meta(description="Passed to the provider as it is, such as flex or priority.")] = ""
    extra: Annotated[
        dict[str, Any],
        Meta(description="Fields added to every request, such as OpenRouter's `provider` with its routing."),
    ] = {}
    text_calls: Annotated[
        Literal["auto", "on", "off"],
        Meta(description="Read tool calls out of plain text; auto does so for servers on this machine."),
    ] = "auto"
    timeouts: Timeouts = Timeouts()
    routing: Routing = Routing()


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run goes."""

    max_steps: Annotated[Count, Meta(description="Model calls in one run; one more call then sums up.")] = 90
    loop_guard: Annotated[bool, Meta(description="Warn, then stop, when the same calls fail or repeat.")] = True
    profile: Annotated[
        Literal["auto", "full", "small"],
        Meta(description="small: few tools and a short prompt; auto takes it for windows up to 16,384 tokens."),
    ] = "auto"
    ephemeral_prompt: Annotated[
        str, Meta(description="Text behind the system prompt of every request; never stored.")
    ] = ""
    prefill: Annotated[
        str,
        Meta(
            description="JSON file of {role, content} messages before the conversation in every request; never stored."
        ),
    ] = ""


class AuxiliarySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models for side work, as [PROVIDER/]NAME; empty is the main model."""

    review: Annotated[str, Meta(description="The model that reviews finished work.")] = ""
    compact: Annotated[str, Meta(description="The model that sums up long conversations.")] = ""
    approve: Annotated[str, Meta(description="The model that judges risky commands.")] = ""
    title: Annotated[str, Meta(description="The model that names sessions; empty names them by their first words.")] = (
        ""
    )


class EnvSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where commands run."""

    default: Annotated[
        str,
        Meta(
            description="The environment that commands run in; auto is the sandbox where it works, else this machine itself."
        ),
    ] = "auto"
    passthrough: Annotated[
        tuple[str, ...],
        Meta(description="Variables that commands see although their names look like those of secrets."),
    ] = ()
    options: Annotated[
        dict[str, dict[str, Any]],
        Meta(description="Settings of environments that plugins add, by the environment's name."),
    ] = {}


class ApprovalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to calls that a person should decide."""

    mode: Annotated[
        Literal["manual", "smart", "off"],
        Meta(
            description="manual asks a person; smart lets auxiliary.approve say yes first; off approves what would be asked."
        ),
    ] = "manual"
    after_untrusted: Annotated[
        Literal["ask", "walls", "allow"],
        Meta(
            description="After text from outside: ask before what changes or sends anything; walls: not for what the sandbox holds."
        ),
    ] = "ask"
    timeout: Annotated[Seconds, Meta(description="Seconds to wait for an answer; then the call is denied.")] = 60.0
    unattended: Annotated[
        Literal["deny", "wait"],
        Meta(description="Without a terminal: deny at once, or wait for an answer from another surface."),
    ] = "deny"


class CheckpointSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a working folder before each turn that changes it, to roll back to."""

    enabled: Annotated[bool, Meta(description="Keep the working folder's state before a turn changes it.")] = True
    keep: Annotated[Count, Meta(description="Checkpoints of one folder; older ones are dropped.")] = 20
    mb: Annotated[Count, Meta(description="Megabytes that the checkpoints of one folder take at most.")] = 500
    file_mb: Annotated[Count, Meta(description="Megabytes above which a file is left out.")] = 10
    days: Annotated[Count, Meta(description="Days after which a checkpoint is dropped.")] = 7


class SecuritySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is taken out of texts."""

    redact: Annotated[
        Literal["auto", "known"],
        Meta(description="auto takes out what looks like a secret; known only values that Melete was given."),
    ] = "auto"


class RunBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that one run may use."""

    usd: Annotated[Dollars | None, Meta(description="US dollars for one run; null is no limit.")] = 10.0
    tokens: Annotated[Count | None, Meta(description="Tokens for one run; null is no limit.")] = 20_000_000
    seconds: Annotated[Seconds, Meta(description="Seconds of wall time for one run.")] = 4 * 3600.0


class DayBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that all runs of a day may use together."""

    usd: Annotated[Dollars | None, Meta(description="US dollars for all runs of a day; null is no limit.")] = 100.0
    tokens: Annotated[Count | None, Meta(description="Tokens for all runs of a day; null is no limit.")] = 200_000_000


class BudgetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be spent."""

    run: RunBudget = RunBudget()
    day: DayBudget = DayBudget()


class CompactionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a conversation is shortened."""

    threshold: Annotated[
        Share, Meta(description="Share of the context window at which a conversation is shortened.")
    ] = 0.5
    target: Annotated[
        Share, Meta(description="Share of that which its latest messages take afterwards, word for word.")
    ] = 0.2
    deadline: Annotated[float, Meta(gt=0, description="Seconds that a model has for a summary.")] = 60.0


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `melete sessions prune` removes when it is told nothing else."""

    keep_days: Annotated[
        Annotated[int, Meta(ge=1, le=36_500)] | None,
        Meta(
            description="Days after its last change that a session is kept; null keeps all. Only `prune` removes any."
        ),
    ] = None
    max_bytes: Annotated[
        Annotated[int, Meta(ge=0)] | Size | None,
        Meta(description="What all sessions take at most, such as 2GB or a number of bytes; null is no limit."),
    ] = None


class ToolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agent may use."""

    enabled: Annotated[tuple[str, ...], Meta(description="Toolsets to offer; empty offers all.")] = ()
    disabled: Annotated[tuple[str, ...], Meta(description="Toolsets or tools to leave out.")] = ()


class SkillSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agent knows how to do, and how it keeps that."""

    enabled: Annotated[bool, Meta(description="Offer skills.")] = True
    bundled: Annotated[bool, Meta(description="Keep the skills that come with Melete up to date in the home.")] = True
    registries: Annotated[
        tuple[str, ...],
        Meta(
            description="Sites, or addresses of indexes, where skills of others are looked for, such as https://example.com."
        ),
    ] = ()
    external_dirs: Annotated[
        tuple[str, ...], Meta(description="Folders with more skills, which are only read, such as ~/.claude/skills.")
    ] = ()
    disabled: Annotated[tuple[str, ...], Meta(description="Skills to leave out, by name.")] = ()
    index_tokens: Annotated[
        Count,
        Meta(description="Tokens that the list of skills in the system prompt takes at most, four characters each."),
    ] = 1_500
    char_budget: Annotated[
        Count | None,
        Meta(description="The same in characters, where they are to be fewer; null is index_tokens alone."),
    ] = None
    suggestions: Annotated[
        Annotated[int, Meta(ge=0, le=5)],
        Meta(description="Skills that are not in the list and match a message, named behind it at most."),
    ] = 5
    config: Annotated[
        dict[str, Any], Meta(description="Values of the settings that skills have of their own, as {key: value}.")
    ] = {}
    refresh_on_call: Annotated[
        bool,
        Meta(description="Look for new, moved and renamed skills before one is loaded; edits of a text always count."),
    ] = True
    edit_user: Annotated[
        bool, Meta(description="Let the agent change skills that you wrote without asking each time.")
    ] = False


class MemorySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered from one session to the next."""

    enabled: Annotated[bool, Meta(description="Remember, and show sessions what is remembered.")] = True
    user_enabled: Annotated[bool, Meta(description="Remember things about the person too, in USER.md.")] = True
    memory_char_limit: Annotated[Count, Meta(description="Characters that MEMORY.md holds at most.")] = 2_200
    user_char_limit: Annotated[Count, Meta(description="Characters that USER.md holds at most.")] = 1_375
    provider: Annotated[str, Meta(description="A memory beside the two files, such as vectors; empty is none.")] = ""
    deadline: Annotated[
        Seconds, Meta(description="Seconds that the provider may take to bring something for a message.")
    ] = 1.0
    config: Annotated[dict[str, Any], Meta(description="Settings of the provider's own, as {key: value}.")] = {}


class LearningSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is learned from finished work, and what that may cost."""

    enabled: Annotated[bool, Meta(description="Review finished work for lessons that are worth keeping.")] = True
    autonomy: Annotated[
        Literal["ask", "auto"],
        Meta(description="auto makes a lesson that passed its gates usable as a trial; ask puts each into the inbox."),
    ] = "auto"
    notify: Annotated[
        Literal["off", "on", "verbose"],
        Meta(
            description="Say in a line what was learned; verbose also what was refused, and reviews without a lesson."
        ),
    ] = "on"
    detach: Annotated[
        bool, Meta(description="Let `melete run` leave a process behind that reviews; else the next one does it.")
    ] = True
    trigger: Annotated[
        Literal["debt", "counters"],
        Meta(description="debt reviews when signals weigh enough; counters after so many steps or turns."),
    ] = "debt"
    review_every_steps: Annotated[
        Annotated[int, Meta(ge=0)],
        Meta(description="With counters: steps with tool calls between two reviews; 0 is never."),
    ] = 10
    review_every_turns: Annotated[
        Annotated[int, Meta(ge=0)], Meta(description="With counters: turns between two reviews; 0 is never.")
    ] = 10
    day_share: Annotated[
        Share, Meta(description="Share of the last seven days' tokens that reviews may take; at least 100,000 a day.")
    ] = 0.1
    review_steps: Annotated[Count, Meta(description="Model calls of one review.")] = 8
    review_usd: Annotated[Dollars | None, Meta(description="US dollars for one review; null is no limit.")] = None
    idle_seconds: Annotated[
        Seconds, Meta(description="Seconds without a prompt after which an open session counts as ended.")
    ] = 120.0


class WebSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the tools reach the web."""

    search: Annotated[
        Literal["auto", "off", "searxng", "brave", "tavily", "exa", "duckduckgo"],
        Meta(description="The service that searches; auto takes the first of these that has an address or a key."),
    ] = "auto"
    search_url: Annotated[
        str,
        Meta(
            description="Address of the SearXNG server, or of one that stands in for the service; it may be a private one."
        ),
    ] = ""
    private_networks: Annotated[
        tuple[str, ...],
        Meta(description="Private networks that may be reached, such as 10.1.0.0/16; this machine and metadata never."),
    ] = ()
    max_size: Annotated[Size, Meta(description="The largest page or file that is fetched.")] = "10MB"
    timeout: Annotated[Seconds, Meta(description="Seconds that fetching a page may take, redirects included.")] = 30.0


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `melete serve` offers, to whom, and how much at once."""

    host: Annotated[str, Meta(description="The address to listen on; any but loopback needs a key.")] = "127.0.0.1"
    port: Annotated[Annotated[int, Meta(ge=0, le=65535)], Meta(description="The port; 0 takes a free one.")] = 8642
    api_key: Annotated[
        str,
        Meta(
            description="The key of this home's own person; several, separated by commas or spaces, while one replaces another."
        ),
    ] = ""
    cors_origins: Annotated[
        tuple[str, ...],
        Meta(description="Origins whose pages may call the API in a browser, such as https://chat.example."),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        Meta(description="Host names under which the server may be called, besides loopback and addresses."),
    ] = ()
    max_body: Annotated[
        Annotated[int, Meta(ge=0)] | Size,
        Meta(description="The largest request body, such as 10MB or a number of bytes."),
    ] = "10MB"
    max_parts: Annotated[Count, Meta(description="Parts of content that one request may have.")] = 1_000
    max_runs: Annotated[Count, Meta(description="Runs at a time; more are answered with 429.")] = 1_000
    requests_per_minute: Annotated[
        Count | None, Meta(description="Requests that one key may make in a minute; null is no limit.")
    ] = None
    warm_sessions: Annotated[Count, Meta(description="Sessions whose agent is kept ready between two runs.")] = 128
    warm_seconds: Annotated[Seconds, Meta(description="Seconds for which an agent without work is kept ready.")] = 900.0
    keepalive: Annotated[Seconds, Meta(description="Seconds of silence after which a stream gets a comment.")] = 15.0
    drain_seconds: Annotated[
        Annotated[float, Meta(ge=0)], Meta(description="Seconds that running work has to end when the server stops.")
    ] = 30.0
    interrupted: Annotated[
        Literal["resume", "report"],
        Meta(description="What becomes of runs that the server's end cut off: they go on, or are only reported."),
    ] = "resume"
    disconnect: Annotated[
        Literal["finish", "cancel"],
        Meta(description="What becomes of a chat or response whose client leaves: it is finished, or cancelled."),
    ] = "finish"


class CronSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When scheduled work runs."""

    enabled: Annotated[bool, Meta(description="Let `melete serve` run the jobs that are due.")] = True
    timezone: Annotated[
        str, Meta(description="Time zone of schedules, such as Europe/Berlin; empty is the system's own.")
    ] = ""
    tick_seconds: Annotated[Seconds, Meta(description="Seconds between two looks at the jobs, at most.")] = 60.0
    max_parallel: Annotated[Count, Meta(description="Jobs that run at a time.")] = 4


class TelemetrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where `melete serve` sends traces of its runs."""

    otlp_endpoint: Annotated[
        str, Meta(description="Address of an OpenTelemetry collector (OTLP over HTTP); empty sends nothing.")
    ] = ""
    content: Annotated[bool, Meta(description="Send what was said and what tools returned along with the traces.")] = (
        False
    )


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a person can set; the keys of config.yaml are these fields."""

    model: ModelSettings = ModelSettings()
    auxiliary: AuxiliarySettings = AuxiliarySettings()
    providers: Annotated[
        dict[str, Provider],
        Meta(description="Servers of your own by name, as {name: {base_url, wire, key_variable, context_length}}."),
    ] = {}
    agent: AgentSettings = AgentSettings()
    env: EnvSettings = EnvSettings()
    sandbox: SandboxOptions = SandboxOptions()
    docker: DockerOptions = DockerOptions()
    ssh: SshOptions = SshOptions()
    modal: ModalOptions = ModalOptions()
    daytona: DaytonaOptions = DaytonaOptions()
    apptainer: ApptainerOptions = ApptainerOptions()
    approvals: ApprovalSettings = ApprovalSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    security: SecuritySettings = SecuritySettings()
    budget: BudgetSettings = BudgetSettings()
    compaction: CompactionSettings = CompactionSettings()
    sessions: SessionSettings = SessionSettings()
    tools: ToolSettings = ToolSettings()
    skills: SkillSettings = SkillSettings()
    memory: MemorySettings = MemorySettings()
    learning: LearningSettings = LearningSettings()
    delegation: DelegationSettings = DelegationSettings()
    verify: VerifySettings = VerifySettings()
    web: WebSettings = WebSettings()
    server: ServerSettings = ServerSettings()
    cron: CronSettings = CronSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
