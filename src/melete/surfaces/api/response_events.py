"""The events of a streamed response, as OpenAI has them; each has a `sequence_number` that is larger than the one before."""

from typing import Literal

from msgspec import Struct

from melete.surfaces.api.response_types import OutputItem, OutputTextPart, Response, SummaryText


class Numbered(Struct, frozen=True, kw_only=True):
    """What every event has."""

    sequence_number: int


class Created(Numbered, frozen=True, kw_only=True, tag="response.created"):
    """The response was begun."""

    response: Response


class InProgress(Numbered, frozen=True, kw_only=True, tag="response.in_progress"):
    """The response is being made; comes again when a question is asked or answered, or a server went on with it."""

    response: Response


class Completed(Numbered, frozen=True, kw_only=True, tag="response.completed"):
    """The response is whole."""

    response: Response


class EndedEarly(Numbered, frozen=True, kw_only=True, tag="response.incomplete"):
    """The response ended at a limit, or was cancelled."""

    response: Response


class Failed(Numbered, frozen=True, kw_only=True, tag="response.failed"):
    """There will be no answer."""

    response: Response


class ItemAdded(Numbered, frozen=True, kw_only=True, tag="response.output_item.added"):
    """An item begins."""

    output_index: int
    item: OutputItem


class ItemDone(Numbered, frozen=True, kw_only=True, tag="response.output_item.done"):
    """An item is finished; one that is `incomplete` was given up, because the model is asked again."""

    output_index: int
    item: OutputItem


class PartAdded(Numbered, frozen=True, kw_only=True, tag="response.content_part.added"):
    """A part of a message begins."""

    item_id: str
    output_index: int
    part: OutputTextPart
    content_index: Literal[0] = 0


class PartDone(Numbered, frozen=True, kw_only=True, tag="response.content_part.done"):
    """A part of a message is finished."""

    item_id: str
    output_index: int
    part: OutputTextPart
    content_index: Literal[0] = 0


class WordsAdded(Numbered, frozen=True, kw_only=True, tag="response.output_text.delta"):
    """Words of a message."""

    item_id: str
    output_index: int
    delta: str
    content_index: Literal[0] = 0
    logprobs: tuple[()] = ()


class WordsDone(Numbered, frozen=True, kw_only=True, tag="response.output_text.done"):
    """All words of a message."""

    item_id: str
    output_index: int
    text: str
    content_index: Literal[0] = 0
    logprobs: tuple[()] = ()


class ThoughtAdded(Numbered, frozen=True, kw_only=True, tag="response.reasoning_summary_part.added"):
    """Thoughts begin."""

    item_id: str
    output_index: int
    part: SummaryText
    summary_index: Literal[0] = 0


class ThoughtWords(Numbered, frozen=True, kw_only=True, tag="response.reasoning_summary_text.delta"):
    """Words of a thought."""

    item_id: str
    output_index: int
    delta: str
    summary_index: Literal[0] = 0


class ThoughtWordsDone(Numbered, frozen=True, kw_only=True, tag="response.reasoning_summary_text.done"):
    """All words of a thought."""

    item_id: str
    output_index: int
    text: str
    summary_index: Literal[0] = 0


class ThoughtDone(Numbered, frozen=True, kw_only=True, tag="response.reasoning_summary_part.done"):
    """A thought is finished."""

    item_id: str
    output_index: int
    part: SummaryText
    summary_index: Literal[0] = 0


class CallBegun(Numbered, frozen=True, kw_only=True, tag="response.mcp_call.in_progress"):
    """A tool is called."""

    item_id: str
    output_index: int


class ArgumentsAdded(Numbered, frozen=True, kw_only=True, tag="response.mcp_call_arguments.delta"):
    """Arguments of a call."""

    item_id: str
    output_index: int
    delta: str


class ArgumentsDone(Numbered, frozen=True, kw_only=True, tag="response.mcp_call_arguments.done"):
    """All arguments of a call."""

    item_id: str
    output_index: int
    arguments: str


class CallDone(Numbered, frozen=True, kw_only=True, tag="response.mcp_call.completed"):
    """A tool has answered."""

    item_id: str
    output_index: int


class CallFailed(Numbered, frozen=True, kw_only=True, tag="response.mcp_call.failed"):
    """A tool has failed, or was not run."""

    item_id: str
    output_index: int


class Broken(Numbered, frozen=True, kw_only=True, tag="error"):
    """The stream cannot go on; the response itself may."""

    message: str
    code: str | None = None
    param: str | None = None


ResponseEvent = (
    Created | InProgress | Completed | EndedEarly | Failed | ItemAdded | ItemDone | PartAdded | PartDone | WordsAdded
    | WordsDone | ThoughtAdded | ThoughtWords | ThoughtWordsDone | ThoughtDone | CallBegun | ArgumentsAdded
    | ArgumentsDone | CallDone | CallFailed | Broken
)  # fmt: skip
