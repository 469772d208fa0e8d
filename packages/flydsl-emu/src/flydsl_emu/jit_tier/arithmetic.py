"""Arithmetic of the vector API as LLVM IR."""

from __future__ import annotations

from flydsl_emu.jit_tier.builder import FunctionBuilder
from flydsl_emu.jit_tier.values import IrValue, element_text, literal
from flydsl_emu.semantics.value_types import B1, F16, F32, F64, I32, TYPES, U32, Type

__all__ = ["Arithmetic"]

Operand = IrValue | int | float


class Arithmetic:
    """Constants, conversions, arithmetic, bits and comparisons.

    Args:
        code: Where instructions go.
        lanes: Lanes of a wave.
    """

    def __init__(self, code: FunctionBuilder, lanes: int) -> None:
        self.code = code
        self.lane_count = lanes

    # Texts ---------------------------------------------------------------------------------------
    def shape(self, type: Type, uniform: bool) -> str:
        """Return the LLVM type of a value."""
        element = element_text(type)
        return element if uniform else f"<{self.lane_count} x {element}>"

    def text(self, x: IrValue, uniform: bool) -> str:
        """Return the name of a value, spread over the lanes where it is uniform."""
        if uniform or not x.uniform:
            return x.text
        element = element_text(x.type)
        if x.constant:
            return f"splat ({element} {x.text})"
        vector = f"<{self.lane_count} x {element}>"
        first = self.code.emit(f"insertelement {vector} poison, {element} {x.text}, i32 0")
        zeros = f"<{self.lane_count} x i32> zeroinitializer"
        return self.code.emit(f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    def spread(self, x: IrValue) -> IrValue:
        """Return a value as one per lane."""
        return IrValue(self.text(x, False), x.type, False) if x.uniform else x

    def same(self, *operands: Operand) -> list[IrValue]:
        """Return operands as values of one type: numbers take that of the others."""
        element = next(x.type for x in operands if isinstance(x, IrValue))
        return [x if isinstance(x, IrValue) else self.const(element, x) for x in operands]

    def made(self, text: str, type: Type, uniform: bool) -> IrValue:
        """Emit an instruction and return its value."""
        return IrValue(self.code.emit(text), type, uniform)

    def _binary(self, name: str, a: Operand, b: Operand, result: Type | None = None) -> IrValue:
        x, y = self.same(a, b)
        uniform = x.uniform and y.uniform
        shape = self.shape(x.type, uniform)
        text = f"{name} {shape} {self.text(x, uniform)}, {self.text(y, uniform)}"
        return self.made(text, result or x.type, uniform)

    def _call(self, name: str, *operands: Operand, result: Type | None = None) -> IrValue:
        """Call an overloaded intrinsic of operands of one type."""
        values = self.same(*operands)
        uniform = all(x.uniform for x in values)
        shape = self.shape(values[0].type, uniform)
        suffix = self.suffix(values[0].type, uniform)
        arguments = [f"{shape} {self.text(x, uniform)}" for x in values]
        text = self.code.intrinsic(f"llvm.{name}.{suffix}", shape, *arguments)
        return IrValue(text, result or values[0].type, uniform)

    def suffix(self, type: Type, uniform: bool) -> str:
        """Return the type's part of an intrinsic's name."""
        element = f"{'f' if type.kind == 'f' else 'i'}{type.bits}"
        return element if uniform else f"v{self.lane_count}{element}"

    # Constants and types -------------------------------------------------------------------------
    def const(self, type: Type, value: float) -> IrValue:
        """Implement `VectorApi.const`."""
        return IrValue(literal(type, value), type, True, True)

    def cast(self, x: IrValue, type: Type) -> IrValue:
        """Implement `VectorApi.cast`."""
        if element_text(x.type) == element_text(type):
            return IrValue(x.text, type, x.uniform, x.constant)
        source, target = self.shape(x.type, x.uniform), self.shape(type, x.uniform)
        return self.made(f"bitcast {source} {x.text} to {target}", type, x.uniform)

    def convert(self, x: IrValue, type: Type) -> IrValue:
        """Implement `VectorApi.convert`."""
        if x.type is type:
            return x
        if type is B1:
            return self.ne(x, 0)
        if x.type.kind == "f":
            if x.type is F64 and type is F16:
                return self._conversion("fptrunc", self._odd_single(x), F16)
            return self._conversion("fpext" if type.bits > x.type.bits else "fptrunc", x, type)
        if type.kind == "f":
            if type is F16 and x.type.bits > 16:
                return self.convert(self.convert(x, F64), F16)
            name = "sitofp" if x.type.kind == "i" else "uitofp"
            if type is F16:
                return self.convert(self.convert(x, F32), F16)
            return self._conversion(name, x, type)
        if element_text(x.type) == element_text(type):
            return IrValue(x.text, type, x.uniform, x.constant)
        if type.bits < x.type.bits:
            return self._conversion("trunc", x, type)
        return self._conversion("sext" if x.type.kind == "i" else "zext", x, type)

    def _conversion(self, name: str, x: IrValue, type: Type) -> IrValue:
        source, target = self.shape(x.type, x.uniform), self.shape(type, x.uniform)
        return self.made(f"{name} {source} {x.text} to {target}", type, x.uniform)

    def _odd_single(self, x: IrValue) -> IrValue:
        """Return a double as ``F32`` rounded to odd, so that rounding once more is harmless."""
        nearest = self._conversion("fptrunc", x, F32)
        back = self.convert(nearest, F64)
        bits = self.cast(nearest, U32)
        away = self.lt(self.abs(x), self.abs(back))
        below = self.sub(bits, self.convert(away, U32))
        inexact = self.bit_or(self.lt(back, x), self.lt(x, back))
        return self.cast(self.select(inexact, self.bit_or(below, 1), bits), F32)

    def truncate(self, x: IrValue, type: Type) -> IrValue:
        """Implement `VectorApi.truncate`."""
        if x.type is F16:
            x = self.convert(x, F32)
        name = "fptosi.sat" if type.kind == "i" else "fptoui.sat"
        source, target = self.shape(x.type, x.uniform), self.shape(type, x.uniform)
        suffixes = f"{self.suffix(type, x.uniform)}.{self.suffix(x.type, x.uniform)}"
        text = self.code.intrinsic(f"llvm.{name}.{suffixes}", target, f"{source} {x.text}")
        return IrValue(text, type, x.uniform)

    # Arithmetic ----------------------------------------------------------------------------------
    def _numeric(self, name: str, a: Operand, b: Operand) -> IrValue:
        x, y = self.same(a, b)
        return self._binary(f"f{name}" if x.type.kind == "f" else name, x, y)

    def add(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.add`."""
        return self._numeric("add", a, b)

    def sub(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.sub`."""
        return self._numeric("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.mul`."""
        return self._numeric("mul", a, b)

    def mul_high(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.mul_high`."""
        x, y = self.same(a, b)
        wide = TYPES[f"{x.type.kind}64"]
        product = self.mul(self.convert(x, wide), self.convert(y, wide))
        return self.convert(self.shr(product, 32), x.type)

    def div(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.div`."""
        return self._binary("fdiv", a, b)

    def fma(self, a: Operand, b: Operand, c: Operand) -> IrValue:
        """Implement `VectorApi.fma`."""
        x, y, z = self.same(a, b, c)
        if x.type is not F16:
            return self._call("fma", x, y, z)
        # The product is exact in single precision; the sum is rounded to odd, then once to half.
        wide = [self.convert(v, F32) for v in (x, y, z)]
        product = self.mul(wide[0], wide[1])
        total = self.add(product, wide[2])
        part = self.sub(total, product)
        error = self.add(self.sub(product, self.sub(total, part)), self.sub(wide[2], part))
        inexact = self.bit_or(self.lt(error, 0.0), self.lt(0.0, error))
        bits = self.cast(total, U32)
        opposite = self.shr(self.bit_xor(self.cast(error, U32), bits), 31)
        odd = self.bit_or(self.sub(bits, opposite), 1)
        return self.convert(self.cast(self.select(inexact, odd, bits), F32), F16)

    def neg(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.neg`."""
        if x.type.kind != "f":
            return self.sub(self.const(x.type, 0), x)
        return self.made(f"fneg {self.shape(x.type, x.uniform)} {x.text}", x.type, x.uniform)

    def abs(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.abs`."""
        if x.type.kind == "f":
            return self._call("fabs", x)
        return self.select(self.lt(x, 0), self.neg(x), x) if x.type.kind == "i" else x

    def _extreme(self, name: str, a: Operand, b: Operand) -> IrValue:
        x, y = self.same(a, b)
        if x.type.kind != "f":
            return self._call(f"{'s' if x.type.kind == 'i' else 'u'}{name}", x, y)
        first = self.lt(x, y) if name == "min" else self.lt(y, x)
        chosen = self.select(self.bit_or(first, self.is_nan(y)), x, y)
        # Equal values differ in the sign of zero at most.
        words = TYPES[f"u{x.type.bits}"]
        combine = self.bit_or if name == "min" else self.bit_and
        both = self.cast(combine(self.cast(x, words), self.cast(y, words)), x.type)
        return self.select(self.eq(x, y), both, chosen)

    def min(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.min`."""
        return self._extreme("min", a, b)

    def max(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.max`."""
        return self._extreme("max", a, b)

    def floor(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.floor`."""
        return self._call("floor", x)

    def ceil(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.ceil`."""
        return self._call("ceil", x)

    def trunc(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.trunc`."""
        return self._call("trunc", x)

    def rint(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.rint`."""
        return self._call("roundeven", x)

    def sqrt(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.sqrt`."""
        return self._call("sqrt", x)

    # Bits ----------------------------------------------------------------------------------------
    def bit_and(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.bit_and`."""
        for x, y in ((a, b), (b, a)):
            if isinstance(x, IrValue) and x.text == "splat (i1 true)" and isinstance(y, IrValue):
                return y if not y.uniform else IrValue(self.text(y, False), B1, False)
        return self._binary("and", a, b)

    def bit_or(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.bit_or`."""
        return self._binary("or", a, b)

    def bit_xor(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.bit_xor`."""
        return self._binary("xor", a, b)

    def bit_not(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.bit_not`."""
        return self._binary("xor", x, 1 if x.type is B1 else -1)

    def _amount(self, x: IrValue, amount: Operand) -> IrValue:
        mask = x.type.bits - 1
        if isinstance(amount, IrValue):
            return self.bit_and(IrValue(amount.text, x.type, amount.uniform, amount.constant), mask)
        return self.const(x.type, int(amount) & mask)

    def shl(self, x: IrValue, amount: Operand) -> IrValue:
        """Implement `VectorApi.shl`."""
        return self._binary("shl", x, self._amount(x, amount))

    def shr(self, x: IrValue, amount: Operand) -> IrValue:
        """Implement `VectorApi.shr`."""
        name = "ashr" if x.type.kind == "i" else "lshr"
        return self._binary(name, x, self._amount(x, amount))

    def popcount(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.popcount`."""
        return self.convert(self._call("ctpop", x), U32)

    def _zeros(self, name: str, x: IrValue) -> IrValue:
        shape = self.shape(x.type, x.uniform)
        intrinsic = f"llvm.{name}.{self.suffix(x.type, x.uniform)}"
        text = self.code.intrinsic(intrinsic, shape, f"{shape} {x.text}", "i1 false")
        return self.convert(IrValue(text, x.type, x.uniform), U32)

    def leading_zeros(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.leading_zeros`."""
        return self._zeros("ctlz", x)

    def trailing_zeros(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.trailing_zeros`."""
        return self._zeros("cttz", x)

    def reverse_bits(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.reverse_bits`."""
        return self._call("bitreverse", x)

    # Comparison and choice -----------------------------------------------------------------------
    def _compare(self, integer: str, float_: str, a: Operand, b: Operand) -> IrValue:
        x, y = self.same(a, b)
        if x.type.kind == "f":
            return self._binary(f"fcmp {float_}", x, y, B1)
        if integer not in ("eq", "ne"):
            integer = f"{'s' if x.type.kind == 'i' else 'u'}{integer}"
        return self._binary(f"icmp {integer}", x, y, B1)

    def eq(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.eq`."""
        return self._compare("eq", "oeq", a, b)

    def ne(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.ne`."""
        return self._compare("ne", "une", a, b)

    def lt(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.lt`."""
        return self._compare("lt", "olt", a, b)

    def le(self, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.le`."""
        return self._compare("le", "ole", a, b)

    def is_nan(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.is_nan`."""
        return self._binary("fcmp uno", x, x, B1)

    def select(self, condition: IrValue, a: Operand, b: Operand) -> IrValue:
        """Implement `VectorApi.select`."""
        x, y = self.same(a, b)
        if condition.text == "splat (i1 true)":
            return IrValue(self.text(x, False), x.type, False)
        uniform = condition.uniform and x.uniform and y.uniform
        shape = self.shape(x.type, uniform)
        test = self.shape(B1, condition.uniform)
        text = (
            f"select {test} {condition.text}, {shape} {self.text(x, uniform)}, "
            f"{shape} {self.text(y, uniform)}"
        )
        return self.made(text, x.type, uniform)

    def ldexp(self, x: IrValue, exponent: IrValue) -> IrValue:
        """Implement `VectorApi.ldexp`."""
        bounded = self.max(self.min(exponent, 4096), -4096)
        if x.type is not F64:
            near = self.max(self.min(bounded, 700), -700)
            wide = self.mul(self.convert(x, F64), self._power(near))
            return self.convert(wide, x.type)
        # Steps down keep 53 bits above the smallest normal number until the last one rounds.
        result, left = x, bounded
        for _ in range(4):
            step = self.max(self.min(left, 1023), -969)
            # A last step into the denormal range must be the only one that rounds.
            last = self.bit_and(self.le(-1022, left), self.lt(left, 0))
            step = self.select(last, left, step)
            result = self.mul(result, self._power(step))
            left = self.sub(left, step)
        return result

    def _power(self, n: IrValue) -> IrValue:
        """Return ``2**n`` as ``F64`` for normal results."""
        wide = self.convert(self.add(n, self.const(I32, 1023)), TYPES["i64"])
        return self.cast(self.shl(wide, 52), F64)
