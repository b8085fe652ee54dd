"""Whether the docs say what the code does."""

from pathlib import Path

from mosaic.workers.rllib.config.support import table

DOCS = Path(__file__).parents[3] / "docs" / "rllib.md"


def test_the_table_of_algorithms_and_configurations_is_the_one_that_is_checked():
    text = DOCS.read_text()
    shown = text.partition("<!-- support:begin -->\n")[2].partition("\n<!-- support:end -->")[0]
    assert shown == table()
