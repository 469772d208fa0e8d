// RUN: fly-promote-regmem-to-vectorssa builtin.module(canonicalize,cse)

// Straight-line code: a stored vector is what the load reads; a scalar access indexes into it.
// CHECK-LABEL: gpu.func @straight(
// CHECK-SAME: %[[V:.*]]: vector<4xf32>, %[[S:.*]]: f32, %[[P:.*]]: !fly.ptr<f32, "global"
// CHECK-NOT: fly.alloca
// CHECK: %[[W:.*]] = vector.insert %[[S]], %[[V]] [2] : f32 into vector<4xf32>
// CHECK: "fly.ptr_store"(%[[W]], %[[P]])
// CHECK: %[[X:.*]] = vector.extract %[[V]][1] : f32 from vector<4xf32>
// CHECK: "fly.ptr_store"(%[[X]], %[[P]])
gpu.module @kernels {
  gpu.func @straight(%v: vector<4xf32>, %s: f32, %p: !fly.ptr<f32, "global", 16 : i64, "">) kernel {
    %r = "fly.alloca"() {bytes = 16 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%v, %r) : (vector<4xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    %two = arith.constant 2 : i32
    %q = "fly.add_offset"(%r, %two) : (!fly.ptr<f32, "register", 4 : i64, "">, i32) -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%s, %q) : (f32, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    %w = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<4xf32>
    "fly.ptr_store"(%w, %p) : (vector<4xf32>, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    %one = arith.constant 1 : i32
    %q1 = "fly.add_offset"(%r, %one) : (!fly.ptr<f32, "register", 4 : i64, "">, i32) -> !fly.ptr<f32, "register", 4 : i64, "">
    %x = "fly.ptr_load"(%q1) : (!fly.ptr<f32, "register", 4 : i64, "">) -> f32
    "fly.ptr_store"(%x, %p) : (f32, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// Each piece that vector accesses cut out is its own loop-carried value.
// CHECK-LABEL: gpu.func @loop(
// CHECK-SAME: %[[V:.*]]: vector<4xf32>, %[[P:.*]]: !fly.ptr
// CHECK: %[[R:.*]]:2 = scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[A:.*]] = %[[V]], %[[B:.*]] = %[[V]]) -> (vector<4xf32>, vector<4xf32>)
// CHECK: %[[X:.*]] = arith.addf %[[A]], %[[V]]
// CHECK: %[[Y:.*]] = arith.mulf %[[B]], %[[V]]
// CHECK: scf.yield %[[X]], %[[Y]]
// CHECK: "fly.ptr_store"(%[[R]]#0, %[[P]])
// CHECK: "fly.ptr_store"(%[[R]]#1, %[[P]])
gpu.module @kernels {
  gpu.func @loop(%v: vector<4xf32>, %p: !fly.ptr<f32, "global", 16 : i64, "">, %n: index, %s: index) kernel {
    %r = "fly.alloca"() {bytes = 32 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    %four = arith.constant 4 : i32
    %q = "fly.add_offset"(%r, %four) : (!fly.ptr<f32, "register", 4 : i64, "">, i32) -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%v, %r) : (vector<4xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    "fly.ptr_store"(%v, %q) : (vector<4xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    scf.for %i = %s to %n step %s {
      %a = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<4xf32>
      %b = arith.addf %a, %v : vector<4xf32>
      "fly.ptr_store"(%b, %r) : (vector<4xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
      %c = "fly.ptr_load"(%q) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<4xf32>
      %d = arith.mulf %c, %v : vector<4xf32>
      "fly.ptr_store"(%d, %q) : (vector<4xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    }
    %x = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<4xf32>
    "fly.ptr_store"(%x, %p) : (vector<4xf32>, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    %y = "fly.ptr_load"(%q) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<4xf32>
    "fly.ptr_store"(%y, %p) : (vector<4xf32>, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// A branch that changes the value yields it; the other one yields the old value.
// CHECK-LABEL: gpu.func @branch(
// CHECK-SAME: %[[V:.*]]: vector<2xf32>, %[[C:.*]]: i1, %[[P:.*]]: !fly.ptr
// CHECK: %[[R:.*]] = scf.if %[[C]] -> (vector<2xf32>) {
// CHECK: %[[W:.*]] = arith.addf %[[V]], %[[V]]
// CHECK: scf.yield %[[W]]
// CHECK: } else {
// CHECK: scf.yield %[[V]]
// CHECK: "fly.ptr_store"(%[[R]], %[[P]])
gpu.module @kernels {
  gpu.func @branch(%v: vector<2xf32>, %c: i1, %p: !fly.ptr<f32, "global", 16 : i64, "">) kernel {
    %r = "fly.alloca"() {bytes = 8 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%v, %r) : (vector<2xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    scf.if %c {
      %a = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<2xf32>
      %w = arith.addf %a, %a : vector<2xf32>
      "fly.ptr_store"(%w, %r) : (vector<2xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    }
    %x = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<2xf32>
    "fly.ptr_store"(%x, %p) : (vector<2xf32>, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// while: carried through the condition and the body.
// CHECK-LABEL: gpu.func @repeat(
// CHECK-SAME: %[[V:.*]]: f32, %[[P:.*]]: !fly.ptr
// CHECK: scf.while (%[[A:.*]] = %{{.*}}) : (vector<1xf32>) -> vector<1xf32>
// CHECK: scf.condition(%{{.*}}) %[[A]]
// CHECK: scf.yield %{{.*}} : vector<1xf32>
gpu.module @kernels {
  gpu.func @repeat(%v: f32, %p: !fly.ptr<f32, "global", 16 : i64, "">) kernel {
    %r = "fly.alloca"() {bytes = 4 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%v, %r) : (f32, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    scf.while : () -> () {
      %a = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> f32
      %c = arith.cmpf olt, %a, %v : f32
      scf.condition(%c)
    } do {
      %a = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> f32
      %b = arith.addf %a, %v : f32
      "fly.ptr_store"(%b, %r) : (f32, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
      scf.yield
    }
    %x = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> f32
    "fly.ptr_store"(%x, %p) : (f32, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// A run-time index needs the whole in one vector.
// CHECK-LABEL: gpu.func @index(
// CHECK-SAME: %[[V:.*]]: vector<4xf32>, %[[S:.*]]: f32, %[[I:.*]]: i32, %[[P:.*]]: !fly.ptr
// CHECK: %[[X:.*]] = arith.index_cast %[[I]] : i32 to index
// CHECK: %[[W:.*]] = vector.insert %[[S]], %[[V]] [%[[X]]] : f32 into vector<4xf32>
// CHECK: %[[Y:.*]] = vector.extract %[[W]][1] : f32 from vector<4xf32>
// CHECK: %[[Z:.*]] = vector.extract %[[W]][%[[X]]] : f32 from vector<4xf32>
gpu.module @kernels {
  gpu.func @index(%v: vector<4xf32>, %s: f32, %i: i32, %p: !fly.ptr<f32, "global", 16 : i64, "">) kernel {
    %r = "fly.alloca"() {bytes = 16 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%v, %r) : (vector<4xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    %q = "fly.add_offset"(%r, %i) : (!fly.ptr<f32, "register", 4 : i64, "">, i32) -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%s, %q) : (f32, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    %one = arith.constant 1 : i32
    %q1 = "fly.add_offset"(%r, %one) : (!fly.ptr<f32, "register", 4 : i64, "">, i32) -> !fly.ptr<f32, "register", 4 : i64, "">
    %x = "fly.ptr_load"(%q1) : (!fly.ptr<f32, "register", 4 : i64, "">) -> f32
    "fly.ptr_store"(%x, %p) : (f32, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    %y = "fly.ptr_load"(%q) : (!fly.ptr<f32, "register", 4 : i64, "">) -> f32
    "fly.ptr_store"(%y, %p) : (f32, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// Recast accesses read the same bits as another type.
// CHECK-LABEL: gpu.func @recast(
// CHECK-SAME: %[[V:.*]]: vector<2xf32>, %[[P:.*]]: !fly.ptr
// CHECK: %[[B:.*]] = vector.bitcast %[[V]] : vector<2xf32> to vector<4xf16>
// CHECK: "fly.ptr_store"(%[[B]], %[[P]])
gpu.module @kernels {
  gpu.func @recast(%v: vector<2xf32>, %p: !fly.ptr<f16, "global", 16 : i64, "">) kernel {
    %r = "fly.alloca"() {bytes = 8 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%v, %r) : (vector<2xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    %h = "fly.recast_iter"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> !fly.ptr<f16, "register", 4 : i64, "">
    %x = "fly.ptr_load"(%h) : (!fly.ptr<f16, "register", 4 : i64, "">) -> vector<4xf16>
    "fly.ptr_store"(%x, %p) : (vector<4xf16>, !fly.ptr<f16, "global", 16 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// A whole that was stored in parts is put together; parts of a whole are cut out.
// CHECK-LABEL: gpu.func @parts(
// CHECK-SAME: %[[A:.*]]: vector<2xf32>, %[[B:.*]]: vector<2xf32>, %[[P:.*]]: !fly.ptr
// CHECK: %[[W:.*]] = vector.shuffle %[[A]], %[[B]] [0, 1, 2, 3] : vector<2xf32>, vector<2xf32>
// CHECK: "fly.ptr_store"(%[[W]], %[[P]])
gpu.module @kernels {
  gpu.func @parts(%a: vector<2xf32>, %b: vector<2xf32>, %p: !fly.ptr<f32, "global", 16 : i64, "">) kernel {
    %r = "fly.alloca"() {bytes = 16 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    %two = arith.constant 2 : i32
    %q = "fly.add_offset"(%r, %two) : (!fly.ptr<f32, "register", 4 : i64, "">, i32) -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%a, %r) : (vector<2xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    "fly.ptr_store"(%b, %q) : (vector<2xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    %w = "fly.ptr_load"(%r) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<4xf32>
    "fly.ptr_store"(%w, %p) : (vector<4xf32>, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// What escapes stays memory.
// CHECK-LABEL: gpu.func @escapes(
// CHECK: %[[R:.*]] = "fly.alloca"() {bytes = 8 : i64}
// CHECK: "fly.ptr_store"(%{{.*}}, %[[R]])
// CHECK: "fly.to_llvm_ptr"(%[[R]])
gpu.module @kernels {
  gpu.func @escapes(%v: vector<2xf32>) kernel {
    %r = "fly.alloca"() {bytes = 8 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.ptr_store"(%v, %r) : (vector<2xf32>, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    %l = "fly.to_llvm_ptr"(%r) {llvm_address_space = 5 : i64} : (!fly.ptr<f32, "register", 4 : i64, "">) -> !llvm.ptr<5>
    gpu.return
  }
}
