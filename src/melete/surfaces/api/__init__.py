"""The HTTP API of `melete serve`: OpenAI's routes, runs with resumable events, sessions and jobs. A surface."""
