"""Extra time of a process's first iteration over its second, as one line of JSON."""

from __future__ import annotations

import json
from time import perf_counter, process_time


def main() -> None:
    began = perf_counter()
    from mosaic.config.loading import parse_run_config
    from mosaic.envs.catalog import make_env
    from mosaic.learners.ppo.build import assemble
    from mosaic.learners.ppo.options import PpoOptions

    make_env("gym/CartPole-v1").close()
    imported, imported_cpu = perf_counter(), process_time()
    config = parse_run_config({"environment": {"env_id": "gym/CartPole-v1", "num_envs": 8}})
    learner = assemble(config, PpoOptions(n_steps=32, threads=1)).learner
    learner.iterate()
    first, first_cpu = perf_counter(), process_time()
    learner.iterate()
    second, second_cpu = perf_counter(), process_time()
    learner.close()
    said = {
        "imports_s": imported - began,
        "kernels_s": (first - imported) - (second - first),
        "kernels_cpu_s": (first_cpu - imported_cpu) - (second_cpu - first_cpu),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
