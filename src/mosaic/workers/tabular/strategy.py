"""Choice of the training method that fits a run, and checks before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.mdp.mdp import GameTables, Mdp
from mosaic.envs.compiled.registry import find_twin
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version
from mosaic.learners.tabular.options import ALGORITHMS
from mosaic.learners.tabular.training.agent_codes import Storage
from mosaic.workers.tabular.distributed import check_mpi_mode, check_workers
from mosaic.workers.tabular.in_env import plan_tables
from mosaic.workers.tabular.mapping import TableMapping, is_default, read_table_mapping

if TYPE_CHECKING:
    from mosaic.workers.tabular.options import TabularWorkerOptions

COMPILED = tuple(name for name in ALGORITHMS if name != "double_q_learning")  # on arrays; it has two tables
COMPILED_IN_GAMES = ("q_learning",)  # with epsilon_greedy exploration


CONNECT_FOUR = "classic/connect_four"


class Way(NamedTuple):
    """Training method.

    `compiled` and `two_tables` use the twin, `hashed` the compiled hashed loop, `played` the env itself.
    """

    kind: Literal["compiled", "two_tables", "hashed", "played"]
    twin: Mdp | GameTables | None
    why: str  # reason for `played`; else how the arrays of a user's own env were found, if they were


def algorithm_of(config: RunConfig) -> str:
    return config.training.algorithm or ALGORITHMS[0]


def choose_way(
    config: RunConfig, options: TabularWorkerOptions, mapping: TableMapping | None = None, *, compile_own: bool = True
) -> Way:
    """Return the fastest method that supports what is asked.

    `mapping` None: every agent learns as the options say. `compile_own`: step a user's own env to find out whether it
    can be compiled; otherwise it is taken as played.
    """
    algorithm, twin = algorithm_of(config), find_twin(config.environment)
    if mapping is not None and not mapping.uniform:
        return Way("played", twin, "the compiled loops train one table that learns for every agent")
    is_known = _is_known(algorithm, options, one_agent=isinstance(twin, Mdp))
    if is_known and options.tables == "one" and options.table != "dense" and is_hashed(config.environment):
        return Way("hashed", None, "")
    if not is_known and is_hashed(config.environment):
        return Way("played", None, _unknown(algorithm, options))
    if twin is None:
        return _own_way(config, options, algorithm) if compile_own else Way("played", None, "it has no compiled twin")
    if options.table == "hashed":
        return Way("played", twin, "its compiled twin has no hashed table")
    if not is_known:
        return Way("played", twin, _unknown(algorithm, options))
    if options.tables == "one":
        return Way("compiled", twin, "")
    if isinstance(twin, GameTables):
        return Way("two_tables", twin, "")
    return Way("played", twin, "the compiled loop has one table")


def _is_known(algorithm: str, options: TabularWorkerOptions, *, one_agent: bool) -> bool:
    """Return whether the compiled loops support what is asked."""
    if options.table_engine != "fused":
        return False
    if one_agent:
        return algorithm in COMPILED
    return algorithm in COMPILED_IN_GAMES and options.exploration == "epsilon_greedy"


def _unknown(algorithm: str, options: TabularWorkerOptions) -> str:
    engine = "" if options.table_engine == "fused" else f" on the engine {options.table_engine}"
    return f"the compiled loop does not know {algorithm} with {options.exploration}{engine}"


def _own_way(config: RunConfig, options: TabularWorkerOptions, algorithm: str) -> Way:
    """Return the method for a user's own env: on arrays compiled from it if that is possible and enabled."""
    if not options.compile_env:
        return Way("played", None, "compile_env is off")
    if options.table == "hashed" or options.bins is not None or options.tables != "one":
        return Way("played", None, "it has no compiled twin")
    if not _is_known(algorithm, options, one_agent=True):
        return Way("played", None, _unknown(algorithm, options))
    from mosaic.envs.compiled.mdp.user_model import own_model

    model = own_model(config.environment.model_dump_json())
    if isinstance(model, str):
        return Way("played", None, f"it cannot be compiled to arrays: {model}")
    return Way("compiled", model.mdp, model.how)


def check_way(config: RunConfig, options: TabularWorkerOptions, spec: EnvSpec) -> None:
    """Raise what training would raise at its start."""
    check_workers(config.resources)
    check_mpi_mode(config, options.mpi_mode)
    way, mapping = _way_of(config, options, spec)
    if options.opponent != "self" and not isinstance(way.twin, GameTables):
        raise InputError(
            f"{spec.env_id} is learned by self-play alone, not against opponent={options.opponent}, which needs the "
            "compiled twin of a game. Leave it out, and name opponents by agent: --agent NAME=random"
        )
    if options.opponent != "self" and way.kind == "played":
        raise InputError(
            f"opponent={options.opponent} needs the compiled twin of a game, but for {spec.env_id} {way.why}. Leave "
            "opponent out, and name it by agent: --agent NAME=random"
        )
    match way.kind:
        case "played":
            plan_tables(config, spec, algorithm_of(config), options, mapping, way.why)
            _check_runtime(config)
        case "hashed":
            check_hashed(config, options)
        case "two_tables":
            _check_two_tables(config, options)
        case "compiled":
            _check_runtime(config)


def table_kind(config: RunConfig, options: TabularWorkerOptions, spec: EnvSpec) -> Storage:
    """Return which kind of table the run is trained in; `options.table` may leave that open."""
    way, mapping = _way_of(config, options, spec)
    match way.kind:
        case "played":
            return plan_tables(config, spec, algorithm_of(config), options, mapping, way.why).storage
        case "hashed":
            return "hashed"
        case "compiled" | "two_tables":
            return "dense"


def _way_of(config: RunConfig, options: TabularWorkerOptions, spec: EnvSpec) -> tuple[Way, TableMapping]:
    """Return the method as far as it is known before the env is stepped.

    An env that can be compiled can also be stepped on every runtime.
    """
    mapping = read_table_mapping(config, options, spec)
    return choose_way(config, options, None if is_default(config) else mapping, compile_own=False), mapping


def is_hashed(config: EnvironmentConfig) -> bool:
    """Return whether the env as configured is learned in a hashed table; a wrapper may change its rules."""
    return split_version(config.id)[0] == CONNECT_FOUR and not config.wrappers


def check_hashed(config: RunConfig, options: TabularWorkerOptions) -> None:
    """Raise if the compiled hashed loop cannot do what is asked."""
    env_id = config.environment.id
    if options.opponent != "self":
        raise InputError(
            f"{env_id} is learned by self-play alone, not against opponent={options.opponent}. "
            "Type: training.params.opponent=self"
        )
    if config.resources.runtime not in (None, "single"):
        raise InputError(
            f"{env_id} is learned in a hashed table, which grows as positions are met and cannot be shared: "
            f"the runtime is {config.resources.runtime}, it should be single. Type: resources.runtime=single"
        )


def _check_two_tables(config: RunConfig, options: TabularWorkerOptions) -> None:
    if options.opponent != "self":
        raise InputError(f"tables=two needs self-play, but the opponent is {options.opponent}. Use opponent=self.")
    if config.resources.runtime not in (None, "single"):
        raise InputError(f"tables=two runs on one thread, not with the runtime {config.resources.runtime}.")


def _check_runtime(config: RunConfig) -> None:
    from mosaic.runtimes.mpi import launch as mpi
    from mosaic.runtimes.ray import session as ray

    if config.resources.runtime == "mpi":
        mpi.check_installed()
        if config.resources.env_runners > 1:
            mpi.mpiexec_path()
    elif config.resources.runtime == "ray":
        ray.check_installed()
        if config.resources.ray_address is not None:
            ray.find_cluster(config.resources.ray_address)
