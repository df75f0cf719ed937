"""Names as the library takes them."""


def text(name: str) -> bytes:
    """A name in UTF-8. Errors: ValueError if it has a NUL, behind which the library would not look."""
    if "\0" in name:
        raise ValueError(f"a name cannot have a NUL: {name!r}")
    return name.encode()
