"""Modules that only some functions need, and a sentence for who lacks them."""

import importlib
from types import ModuleType


def need(module: str, what: str, remedy: str) -> ModuleType:
    """Imports a module. Errors: ImportError that says what needs it and how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{what} {module}, which cannot be imported ({error}): {remedy}") from error
