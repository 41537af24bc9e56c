"""Smart routing: which messages are simple enough for a cheaper model. Part of the composition root, pure.

A message counts as simple when nothing in it looks like work: it is short, in one piece, and names no code, file, address or
task. In doubt it is not simple: a wrong guess costs more than it saves.
"""

import re

from melete.app.sections import Routing
from melete.core.message import Message, Text

_WORK = (
    r"[`{}<>|$\\]|https?://|www\.|\w/\w|\w\.(py|js|ts|rs|go|c|h|cpp|java|rb|sh|md|txt|json|ya?ml|toml|csv|sql|html|css|pdf)\b"
    r"|\b(analy[sz]e|architect|audit|bench\w*|build|bug\w*|code|commit|compare|compile|config\w*|create|debug\w*|delete|deploy"
    r"|design|diff|docker|download|edit|error|exception|file|find|fix|folder|function|generate|git|implement|install|investigate"
    r"|list|log|merge|migrat\w*|move|optimi[sz]e|patch|plan|project|prove|pull|push|read|refactor\w*|remove|rename|repo\w*|research"
    r"|review|run|schedule|script|search|sql|step|summari[sz]e|test\w*|tool|traceback|translate|update|write)\b"
)


def is_simple(prompt: Message, routing: Routing) -> bool:
    """Whether a message may go to the cheaper model."""
    if not all(isinstance(part, Text) for part in prompt.parts):
        return False
    text = prompt.text.strip()
    short = len(text) <= routing.max_chars and len(text.split()) <= routing.max_words
    return bool(text) and short and "\n" not in text and not re.search(_WORK, text, re.IGNORECASE)
