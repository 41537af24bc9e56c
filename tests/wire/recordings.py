"""Answers as real servers of each wire send them, byte for byte, for the tests that cut them anywhere."""

from pathlib import Path

HEAD = b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1767225600,"model":"m","service_tier":"default",'

ANSWERS = {
    "openai-chat": b"".join(
        b"data: " + piece.replace(b"{", HEAD, 1) + b"\r\n\r\n"
        for piece in (
            b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}',
            '{"choices":[{"delta":{"reasoning_content":"Hm… "}}]}'.encode(),
            '{"choices":[{"delta":{"content":"Grüße 😀"}}]}'.encode(),
            b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read_file","arguments":""}}]}}]}',
            b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"path\\":"}}]}}]}',
            b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\"x\\"}"}}]}}]}',
            b'{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}',
            b'{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_tokens_details":'
            b'{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":2,"audio_tokens":0}}}',
            b"[DONE]",
        )
    ),
    "openai-responses": Path(__file__).with_name("recorded").joinpath("openai-responses.sse").read_bytes(),
    "gemini": "".join(
        f"data: {piece}\r\n\r\n"
        for piece in (
            '{"candidates": [{"content": {"parts": [{"text": "**Grüßen**\\n\\nHm… ","thought": true}],"role": "model"},'
            '"index": 0}],"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 12,"thoughtsTokenCount": 3},'
            '"modelVersion": "gemini-3-pro-preview","responseId": "qW3kaZ"}',
            '{"candidates": [{"content": {"parts": [{"text": "Grüße"}],"role": "model"},"index": 0}],'
            '"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 14,"thoughtsTokenCount": 3},'
            '"modelVersion": "gemini-3-pro-preview","responseId": "qW3kaZ"}',
            '{"candidates": [{"content": {"parts": [{"text": " 😀"}],"role": "model"},"index": 0}],'
            '"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 14,"thoughtsTokenCount": 3},'
            '"modelVersion": "gemini-3-pro-preview","responseId": "qW3kaZ"}',
            '{"candidates": [{"content": {"parts": [{"functionCall": {"name": "read_file","args": {"path": "x"},"id": "k2v9x"},'
            '"thoughtSignature": "EqgBCqUBAb4+9vs="}],"role": "model"},"index": 0}],'
            '"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 14,"thoughtsTokenCount": 3},'
            '"modelVersion": "gemini-3-pro-preview","responseId": "qW3kaZ"}',
            '{"candidates": [{"content": {"parts": [{"text": ""}],"role": "model"},"finishReason": "STOP","index": 0}],'
            '"usageMetadata": {"promptTokenCount": 9,"candidatesTokenCount": 5,"totalTokenCount": 17,"thoughtsTokenCount": 3},'
            '"modelVersion": "gemini-3-pro-preview","responseId": "qW3kaZ"}',
        )
    ).encode(),
    "anthropic-messages": b"".join(
        b"event: " + name + b"\ndata: " + piece + b"\n\n"
        for name, piece in (
            (
                b"message_start",
                b'{"type":"message_start","message":{"model":"m","id":"msg_1","type":"message","role":"assistant",'
                b'"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,'
                b'"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}',
            ),
            (
                b"content_block_start",
                b'{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
            ),
            (b"ping", b'{"type": "ping"}'),
            (
                b"content_block_delta",
                '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm… "}}'.encode(),
            ),
            (
                b"content_block_delta",
                b'{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCg=="}}',
            ),
            (b"content_block_stop", b'{"type":"content_block_stop","index":0}'),
            (
                b"content_block_start",
                b'{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
            ),
            (
                b"content_block_delta",
                '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüße 😀"}}'.encode(),
            ),
            (b"content_block_stop", b'{"type":"content_block_stop","index":1}'),
            (
                b"content_block_start",
                b'{"type":"content_block_start","index":2,"content_block":'
                b'{"type":"tool_use","id":"toolu_01a","name":"read_file","input":{}}}',
            ),
            (
                b"content_block_delta",
                b'{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}',
            ),
            (
                b"content_block_delta",
                b'{"type":"content_block_delta","index":2,"delta":'
                b'{"type":"input_json_delta","partial_json":"{\\"path\\":"}}',
            ),
            (
                b"content_block_delta",
                b'{"type":"content_block_delta","index":2,"delta":'
                b'{"type":"input_json_delta","partial_json":"\\"x\\"}"}}',
            ),
            (b"content_block_stop", b'{"type":"content_block_stop","index":2}'),
            (
                b"message_delta",
                b'{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},'
                b'"usage":{"output_tokens":5}}',
            ),
            (b"message_stop", b'{"type":"message_stop"}'),
        )
    ),
}
