"""A GGUF file made here: a llama of one layer with random weights and a vocabulary of bytes. It speaks, and says nothing."""

import random
import struct
from pathlib import Path
from typing import Any

WIDTH, INNER, HEADS, TRAINED = 32, 64, 2, 512
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
KNOWS_TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}" + TEMPLATE
ALIGNMENT = 32


def text(value: str) -> bytes:
    """A text as the format has it."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(name: str, value: Any) -> bytes:
    """An entry of the head: whole numbers are 4 bytes wide, and signed in lists, which are of one kind."""
    kinds = {bool: (7, "<?"), int: (5 if isinstance(value, list) else 4, "<i"), float: (6, "<f")}
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        first: Any = value[0]
        kind = 8 if isinstance(first, str) else kinds[type(first)][0]
        items = [text(v) if isinstance(v, str) else struct.pack(kinds[type(v)][1], v) for v in value]
        return text(name) + struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)
    kind, form = kinds[type(value)]
    return text(name) + struct.pack("<I", kind) + struct.pack(form, value)


def write(path: Path, *, template: str = TEMPLATE, **changes: Any) -> Path:
    """Write the file; `changes` are entries of the head by their name after the architecture's."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256))]
    head: dict[str, Any] = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.context_length": TRAINED,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.chat_template": template,
        **{f"llama.{name}": value for name, value in changes.items()},
    }
    shapes = {
        "token_embd.weight": (WIDTH, len(tokens)),
        "output_norm.weight": (WIDTH,),
        "output.weight": (WIDTH, len(tokens)),
        "blk.0.attn_norm.weight": (WIDTH,),
        "blk.0.ffn_norm.weight": (WIDTH,),
        **{f"blk.0.attn_{part}.weight": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")},
        "blk.0.ffn_gate.weight": (WIDTH, INNER),
        "blk.0.ffn_up.weight": (WIDTH, INNER),
        "blk.0.ffn_down.weight": (INNER, WIDTH),
    }
    chance = random.Random(7)
    listed, data = b"", b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        weights = [1.0 if len(shape) == 1 else chance.gauss(0.0, 0.3) for _ in range(count)]
        listed += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += struct.pack(f"<{count}f", *weights)
        data += b"\0" * (-len(data) % ALIGNMENT)
    whole = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(head))
    whole += b"".join(entry(name, value) for name, value in head.items()) + listed
    path.write_bytes(whole + b"\0" * (-len(whole) % ALIGNMENT) + data)
    return path
