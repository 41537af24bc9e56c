# The names that CI uses. `just --list` shows them; every recipe is one command to type by hand.

# Install Melete editable with its development tools, exactly as pinned
setup:
    pip install --require-hashes -r requirements.lock
    pip install --no-deps -e .

# Run every test
test *ARGS:
    pytest {{ARGS}}

# Check style and formatting
lint:
    ruff check .
    ruff format --check .

# Check types
types:
    pyright

# Check that imports go down only
layers:
    lint-imports

# Build the documentation; a warning fails it
docs:
    python scripts/reference.py --check
    NO_MKDOCS_2_WARNING=1 mkdocs build --strict

# Write the generated reference pages anew, and what the packaged skills say of themselves
reference:
    python scripts/reference.py
    python scripts/prepare_skills.py

# Draw the README's picture of the demo anew
picture:
    python scripts/demo_picture.py

# Run the examples
examples:
    for example in examples/*.py; do echo "$example"; python "$example"; done

# Measure (see benchmarks/README.md)
bench *ARGS:
    python -m benchmarks {{ARGS}}

# Pin the dependencies anew
lock:
    bash scripts/lock.sh

# Everything that CI does, in a fresh environment
ci:
    bash .ci/run
