"""How a document that does not fit its model is explained, setting by setting."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mosaic.config.validation import find_section, no_such_setting
from mosaic.core.errors import demand, shown, suggestion

MOST_COMPLAINTS = 5


def explain_settings(error: ValidationError, model: type[BaseModel]) -> str:
    """One line per complaint. Unknown keys come first: a misspelt one is often why another is missing."""
    complaints = sorted(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
    lines = [_explain(each, model) for each in complaints[:MOST_COMPLAINTS]]
    if len(complaints) > MOST_COMPLAINTS:
        lines.append(f"There are {len(complaints) - MOST_COMPLAINTS} more complaints.")
    return "\n".join(lines)


def _explain(complaint: ErrorDetails, model: type[BaseModel]) -> str:
    path = [str(part) for part in complaint["loc"] if part != "[key]"]
    match complaint["type"]:
        case "extra_forbidden":
            return no_such_setting(model, path)
        case "missing":
            return _missing(path, model)
    sentence = f"{demand(complaint)}.{suggestion(complaint)}"
    if complaint["loc"] and "[key]" in complaint["loc"]:
        return f"A name in '{'.'.join(path[:-1])}' cannot be {shown(complaint['input'])}: {sentence}"
    if find_section(model, path) and complaint["type"] == "value_error":
        return sentence  # settings that contradict each other: the sentence names them
    where = f"'{'.'.join(path)}'" if path else "The document"
    return f"{where} cannot be {shown(complaint['input'])}: {sentence}"


def _missing(path: list[str], model: type[BaseModel]) -> str:
    while section := find_section(model, path):
        path = [*path, next(name for name, field in section.model_fields.items() if field.is_required())]
    home = find_section(model, path[:-1])
    help_text = home.model_fields[path[-1]].description if home else None
    dotted = ".".join(path)
    return f"The setting '{dotted}' is missing: {help_text} Add it to the document or type --set {dotted}=VALUE."
