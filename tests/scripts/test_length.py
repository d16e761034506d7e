"""The gate on the length of source files."""

from __future__ import annotations

from scripts.length import too_long


def test_a_file_over_the_limit_is_named_with_its_lines(tmp_path):
    (tmp_path / "long.py").write_text("x = 1\n" * 4)
    (tmp_path / "right.py").write_text("x = 1\n" * 3)
    assert too_long(tmp_path, limit=3) == [f"{tmp_path / 'long.py'}: 4 lines, at most 3: split it by noun"]
