"""The modules of the package `snowballstemmer`, each importable alone: its own front door imports all of them. Part of the store.

`melete.store.snowball.english_stemmer` is that package's `english_stemmer`. Whoever asks for one language waits for one.
"""

from importlib.util import find_spec

_package = find_spec("snowballstemmer")
if _package is None:
    raise ModuleNotFoundError("the stemmers are not installed", name="snowballstemmer")
__path__ = list(_package.submodule_search_locations or ())
