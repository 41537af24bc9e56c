"""Answers as real servers of each wire send them, byte for byte, for the tests that cut them anywhere."""

ANSWERS = {
    "openai-chat": b"".join(
        b"data: " + piece + b"\r\n\r\n"
        for piece in (
            b'{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}',
            '{"choices":[{"delta":{"reasoning_content":"Hm… "}}]}'.encode(),
            '{"choices":[{"delta":{"content":"Grüße 😀"}}]}'.encode(),
            b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read_file","arguments":""}}]}}]}',
            b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"path\\":"}}]}}]}',
            b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\"x\\"}"}}]}}]}',
            b'{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}',
            b'{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5}}',
            b"[DONE]",
        )
    ),
}
