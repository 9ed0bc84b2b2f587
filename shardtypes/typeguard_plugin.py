"""Our annotations under typeguard's own decorator and import hook.

typeguard asks the functions in a public list who checks a type, and loads those of installed packages by itself: ours
answers for types that hold arrays. Nothing heavy is imported before such a type is checked, and nothing that typeguard
does with other types is changed.
"""

from __future__ import annotations

import sys
from typing import Any

from shardtypes import plain_classes

# What answers, once there are annotations of ours: the class of their dtypes, their check, and whatever else.
_known: tuple[Any, Any, Any] | None = None


def lookup(origin: Any, args: tuple[Any, ...], extras: tuple[Any, ...]) -> Any:
    """typeguard's question: who checks this type? None for a type that holds no arrays of ours."""
    global _known
    if id(origin) in plain_classes.known and not args and not extras:
        return None
    if _known is None:
        # nobody has made an annotation yet
        if not hasattr(sys.modules.get("shardtypes.dtypes"), "ALL_DTYPES"):
            return None
        from shardtypes.accepted_dtypes import DTypeClass
        from shardtypes.typeguard_calls import check_array, checker

        _known = DTypeClass, check_array, checker
    dtype_class, of_array, of_other = _known
    return (
        of_array
        if type(origin) is dtype_class and args
        else of_other(origin, args, extras)
    )


def register_with_typeguard() -> None:
    """Have typeguard check our annotations, wherever its decorator or its import hook is used.

    typeguard and any array type, whichever is imported second, do this already; calling it again changes nothing.
    """
    try:
        import typeguard
    except ModuleNotFoundError as error:
        from shardtypes.messages import missing_package

        message = missing_package("register_with_typeguard", "typeguard")
        raise ModuleNotFoundError(message, name="typeguard") from error
    from typeguard import _transformer

    from shardtypes.typeguard_strings import leave_strings_alone

    if lookup not in typeguard.checker_lookup_functions:
        typeguard.checker_lookup_functions.insert(0, lookup)
    leave_strings_alone(_transformer)


if "typeguard" in sys.modules:  # which is loading this as one of its plugins
    from typeguard import _transformer

    from shardtypes.typeguard_strings import leave_strings_alone

    leave_strings_alone(_transformer)
