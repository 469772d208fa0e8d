// RUN: fly-canonicalize

// Static algebra becomes one constant per type; what nobody uses goes.
// CHECK-LABEL: gpu.func @fold(
// CHECK-NEXT: %[[D:.*]] = "fly.static"() : () -> !fly.layout<"(4,4):(1,4)">
// CHECK-NEXT: %[[X:.*]] = "fly.pack"
// CHECK-NEXT: %[[C:.*]] = "fly.composition"(%[[X]], %[[D]])
// CHECK-NEXT: %[[U:.*]]:2 = "fly.unpack"(%[[C]])
// CHECK-NEXT: gpu.return %[[U]]#1
gpu.module @kernels {
  gpu.func @fold(%n: i32) -> i32 {
    %l = "fly.static"() : () -> !fly.layout<"16:1">
    %t = "fly.static"() : () -> !fly.layout<"4:1">
    %d = "fly.logical_divide"(%l, %t) : (!fly.layout<"16:1">, !fly.layout<"4:1">) -> !fly.layout<"(4,4):(1,4)">
    %e = "fly.logical_divide"(%l, %t) : (!fly.layout<"16:1">, !fly.layout<"4:1">) -> !fly.layout<"(4,4):(1,4)">
    %x = "fly.pack"(%n) {operandSegmentSizes = array<i32: 0, 1, 0>} : (i32) -> !fly.layout<"16:?">
    %u = "fly.unpack"(%x) {resultSegmentSizes = array<i32: 0, 1, 0>} : (!fly.layout<"16:?">) -> i32
    %c = "fly.composition"(%x, %e) : (!fly.layout<"16:?">, !fly.layout<"(4,4):(1,4)">) -> !fly.layout<"(4,4):(?,?{div=4})">
    %p:2 = "fly.unpack"(%c) {resultSegmentSizes = array<i32: 0, 2, 0>} : (!fly.layout<"(4,4):(?,?{div=4})">) -> (i32, i32)
    %s = "fly.size"(%d) : (!fly.layout<"(4,4):(1,4)">) -> !fly.int_tuple<"16">
    gpu.return %p#1 : i32
  }
}

// -----

// Equal operations merge where one dominates the other: not across branches.
// CHECK-LABEL: gpu.func @merge(
// CHECK: %[[T:.*]] = "fly.make_int_tuple"(%{{.*}})
// CHECK: scf.if
// CHECK: %[[A:.*]] = "fly.size"(%[[T]])
// CHECK-NEXT: %[[S:.*]] = "fly.get_scalar"(%[[A]])
// CHECK-NEXT: arith.addi %[[S]], %[[S]]
// CHECK: } else {
// CHECK: "fly.size"(%[[T]])
gpu.module @kernels {
  gpu.func @merge(%n: i32, %c: i1) -> i64 {
    %t = "fly.make_int_tuple"(%n) {operandSegmentSizes = array<i32: 1, 0>} : (i32) -> !fly.int_tuple<"(?,4)">
    %r = scf.if %c -> i64 {
      %u = "fly.make_int_tuple"(%n) {operandSegmentSizes = array<i32: 1, 0>} : (i32) -> !fly.int_tuple<"(?,4)">
      %a = "fly.size"(%t) : (!fly.int_tuple<"(?,4)">) -> !fly.int_tuple<"?{i64 div=4}">
      %b = "fly.size"(%u) : (!fly.int_tuple<"(?,4)">) -> !fly.int_tuple<"?{i64 div=4}">
      %x = "fly.get_scalar"(%a) : (!fly.int_tuple<"?{i64 div=4}">) -> i64
      %y = "fly.get_scalar"(%b) : (!fly.int_tuple<"?{i64 div=4}">) -> i64
      %z = arith.addi %x, %y : i64
      scf.yield %z : i64
    } else {
      %a = "fly.size"(%t) : (!fly.int_tuple<"(?,4)">) -> !fly.int_tuple<"?{i64 div=4}">
      %x = "fly.get_scalar"(%a) : (!fly.int_tuple<"?{i64 div=4}">) -> i64
      scf.yield %x : i64
    }
    gpu.return %r : i64
  }
}

// -----

// Memory operations stay, in order, used or not.
// CHECK-LABEL: gpu.func @effects(
// CHECK: "fly.memref_alloca"
// CHECK: "fly.memref_alloca"
// CHECK: "fly.memref_load_vec"
gpu.module @kernels {
  gpu.func @effects() {
    %a = "fly.memref_alloca"() : () -> !fly.memref<f32, "register", "4:1", 4 : i64>
    %b = "fly.memref_alloca"() : () -> !fly.memref<f32, "register", "4:1", 4 : i64>
    %v = "fly.memref_load_vec"(%a) : (!fly.memref<f32, "register", "4:1", 4 : i64>) -> vector<4xf32>
    gpu.return
  }
}
