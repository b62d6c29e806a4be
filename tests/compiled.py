"""Tests that a package with compiled modules cannot pass: `make check-compiled` skips them, and says why."""

import pytest

from holdfast.core import channel

IS_COMPILED = not str(channel.__file__).endswith(".py")

replaces_methods = pytest.mark.skipif(IS_COMPILED, reason="it replaces methods, and those of compiled classes stay")
traces_calls = pytest.mark.skipif(IS_COMPILED, reason="it traces calls, and those of compiled functions are not seen")
