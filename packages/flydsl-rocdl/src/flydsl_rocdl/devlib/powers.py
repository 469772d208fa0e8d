"""Integer powers, which need a loop and are therefore written as text."""

from __future__ import annotations

__all__ = ["integer_power"]

_TEXT = """
define internal {kind} @__fly_{name}({kind} %base, {kind} %exponent) alwaysinline nounwind {{
entry:
  %negative = icmp slt {kind} %exponent, 0
  %isone = icmp eq {kind} %base, 1
  %isminus = icmp eq {kind} %base, -1
  %odd = and {kind} %exponent, 1
  %isodd = icmp ne {kind} %odd, 0
  %sign = select i1 %isodd, {kind} -1, {kind} 1
  %fraction = select i1 %isone, {kind} 1, {kind} 0
  %inverse = select i1 %isminus, {kind} %sign, {kind} %fraction
  br i1 %negative, label %done, label %loop
loop:
  %left = phi {kind} [ %exponent, %entry ], [ %nextleft, %loop ]
  %power = phi {kind} [ %base, %entry ], [ %nextpower, %loop ]
  %product = phi {kind} [ 1, %entry ], [ %nextproduct, %loop ]
  %bit = and {kind} %left, 1
  %use = icmp ne {kind} %bit, 0
  %more = mul {kind} %product, %power
  %nextproduct = select i1 %use, {kind} %more, {kind} %product
  %nextpower = mul {kind} %power, %power
  %nextleft = lshr {kind} %left, 1
  %finished = icmp eq {kind} %nextleft, 0
  br i1 %finished, label %done, label %loop
done:
  %result = phi {kind} [ %inverse, %entry ], [ %nextproduct, %loop ]
  ret {kind} %result
}}
"""


def integer_power(name: str, kind: str) -> str:
    """Return the definition of base ** exponent by repeated squaring, modulo two to the width.

    A negative exponent gives the integer part of the quotient: 0 unless the base is 1 or -1.

    Args:
        name: Function name without prefix.
        kind: LLVM integer type.
    """
    return _TEXT.format(kind=kind, name=name)
