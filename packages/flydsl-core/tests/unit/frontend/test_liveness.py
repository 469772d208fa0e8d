from __future__ import annotations

import ast
import textwrap

from flydsl.frontend.liveness import Liveness


def carried(source: str) -> list[list[str]]:
    """Return the carried names of every `if` and loop, in order of position."""
    function = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(function, ast.FunctionDef)
    live = Liveness(function)
    kinds = (ast.If, ast.For, ast.While)
    nodes = sorted((n for n in ast.walk(function) if isinstance(n, kinds)), key=lambda n: n.lineno)
    return [live.carried(node) for node in nodes]


def test_names_read_after_an_if_are_carried_and_temporaries_are_not():
    assert carried("""
        def f(c):
            if c:
                a = 1
                t = 2
            t = 3
            return a + t
    """) == [["a"]]


def test_a_loop_carries_what_the_next_iteration_reads():
    assert carried("""
        def f(n):
            total = 0
            t = 0
            for i in range(n):
                t = i * 2
                total = total + t
            return total
    """) == [["total"]]


def test_a_loop_variable_is_carried_only_if_it_is_read_later():
    assert carried("""
        def f(n):
            for i in range(n):
                pass
            for j in range(n):
                pass
            return j
    """) == [[], ["j"]]


def test_an_inner_if_carries_for_the_next_iteration_of_the_outer_loop():
    assert carried("""
        def f(n):
            x = 0
            while n > 0:
                if x > 3:
                    x = 0
                else:
                    x = x + 1
                n = n - 1
    """) == [["x", "n"], ["x"]]


def test_names_captured_by_functions_are_always_live():
    assert carried("""
        def f(c):
            if c:
                a = 1
                b = 2
            return lambda: b
    """) == [["b"]]


def test_a_name_assigned_on_every_path_before_use_is_dead():
    assert carried("""
        def f(c, d):
            if c:
                x = 1
            if d:
                x = 2
            else:
                x = 3
            return x
    """) == [[], ["x"]]


def test_a_subscript_store_reads_its_container():
    assert carried("""
        def f(c, items):
            if c:
                items = [1]
            items[0] = 2
    """) == [["items"]]
