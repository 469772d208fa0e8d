// RUN: fly-int-swizzle-simplify builtin.module(canonicalize,cse)

// S<3,0,3> has period 64: 128 moves out whole, of 65 only 64 does.
// CHECK-LABEL: func.func @constants(
// CHECK-SAME: %[[A:.*]]: i32)
// CHECK-DAG: %[[C56:.*]] = arith.constant 56 : i32
// CHECK-DAG: %[[C128:.*]] = arith.constant 128 : i32
// CHECK: %[[M:.*]] = arith.andi %[[A]], %[[C56]]
// CHECK: %[[S:.*]] = arith.shrui %[[M]]
// CHECK: %[[X:.*]] = arith.xori %[[A]], %[[S]]
// CHECK: %[[R:.*]] = arith.addi %[[X]], %[[C128]]
// CHECK: %[[B:.*]] = arith.addi %[[A]], %c1_i32
// CHECK: arith.andi %[[B]], %[[C56]]
// CHECK: arith.addi %{{.*}}, %c64_i32
func.func @constants(%a: i32) -> (i32, i32) {
  %c128 = arith.constant 128 : i32
  %c65 = arith.constant 65 : i32
  %mask = arith.constant 56 : i32
  %three = arith.constant 3 : i32
  %x = arith.addi %a, %c128 : i32
  %p = arith.andi %x, %mask : i32
  %q = arith.shrui %p, %three : i32
  %r = arith.xori %x, %q : i32
  %y = arith.addi %a, %c65 : i32
  %p1 = arith.andi %y, %mask : i32
  %q1 = arith.shrui %p1, %three : i32
  %r1 = arith.xori %y, %q1 : i32
  return %r, %r1 : i32, i32
}

// -----

// A run-time multiple of the period moves out too; another summand does not.
// CHECK-LABEL: func.func @multiples(
// CHECK-SAME: %[[A:.*]]: i32, %[[I:.*]]: i32)
// CHECK: %[[D:.*]] = arith.muli %[[I]], %c192_i32
// CHECK: %[[M:.*]] = arith.andi %[[A]], %c56_i32
// CHECK: %[[S:.*]] = arith.shrui %[[M]]
// CHECK: %[[X:.*]] = arith.xori %[[A]], %[[S]]
// CHECK: %[[R:.*]] = arith.addi %[[X]], %[[D]]
// CHECK: %[[E:.*]] = arith.muli %[[I]], %c96_i32
// CHECK: %[[F:.*]] = arith.addi %[[A]], %[[E]]
// CHECK: arith.andi %[[F]], %c56_i32
// CHECK: return %[[R]]
func.func @multiples(%a: i32, %i: i32) -> (i32, i32) {
  %c192 = arith.constant 192 : i32
  %c96 = arith.constant 96 : i32
  %mask = arith.constant 56 : i32
  %three = arith.constant 3 : i32
  %d = arith.muli %i, %c192 : i32
  %x = arith.addi %a, %d : i32
  %p = arith.andi %x, %mask : i32
  %q = arith.shrui %p, %three : i32
  %r = arith.xori %x, %q : i32
  %e = arith.muli %i, %c96 : i32
  %y = arith.addi %a, %e : i32
  %p1 = arith.andi %y, %mask : i32
  %q1 = arith.shrui %p1, %three : i32
  %r1 = arith.xori %y, %q1 : i32
  return %r, %r1 : i32, i32
}

// -----

// Bits moved up count for the period; other xors are left alone.
// CHECK-LABEL: func.func @up(
// CHECK-SAME: %[[A:.*]]: i32)
// CHECK: %[[Y:.*]] = arith.addi %[[A]], %c64_i32
// CHECK: %[[M:.*]] = arith.andi %[[A]], %c7_i32
// CHECK: %[[S:.*]] = arith.shli %[[M]], %c3_i32
// CHECK: %[[X:.*]] = arith.xori %[[A]], %[[S]]
// CHECK: arith.addi %[[X]], %c64_i32
// CHECK: arith.xori %[[Y]], %c7_i32
func.func @up(%a: i32) -> (i32, i32) {
  %c64 = arith.constant 64 : i32
  %mask = arith.constant 7 : i32
  %three = arith.constant 3 : i32
  %x = arith.addi %a, %c64 : i32
  %p = arith.andi %x, %mask : i32
  %q = arith.shli %p, %three : i32
  %r = arith.xori %x, %q : i32
  %s = arith.xori %x, %mask : i32
  return %r, %s : i32, i32
}
