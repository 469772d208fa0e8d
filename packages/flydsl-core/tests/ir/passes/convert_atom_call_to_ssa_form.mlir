// RUN: fly-convert-atom-call-to-ssa-form

// Memory to registers: the call gives a vector, which is stored to the registers.
// CHECK-LABEL: gpu.func @load(
// CHECK-SAME: %[[P:.*]]: !fly.ptr<f32, "global"
// CHECK: %[[A:.*]] = "fly.make_copy_atom"
// CHECK: %[[R:.*]] = "fly.alloca"
// CHECK: %[[V:.*]] = "fly.copy_atom_call_ssa"(%[[A]], %[[P]]) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
// CHECK-SAME: -> vector<4xf32>
// CHECK: "fly.ptr_store"(%[[V]], %[[R]])
gpu.module @kernels {
  gpu.func @load(%p: !fly.ptr<f32, "global", 16 : i64, "">) kernel {
    %a = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_copy<128>", 32 : i64>
    %r = "fly.alloca"() {bytes = 16 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.copy_atom_call"(%a, %p, %r) : (!fly.copy_atom<"universal_copy<128>", 32 : i64>, !fly.ptr<f32, "global", 16 : i64, "">, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// Registers to memory.
// CHECK-LABEL: gpu.func @store(
// CHECK-SAME: %[[P:.*]]: !fly.ptr<f32, "global"
// CHECK: %[[V:.*]] = "fly.ptr_load"(%{{.*}}) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<4xf32>
// CHECK: "fly.copy_atom_call_ssa"(%{{.*}}, %[[V]], %[[P]]) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
gpu.module @kernels {
  gpu.func @store(%p: !fly.ptr<f32, "global", 16 : i64, "">) kernel {
    %a = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_copy<128>", 32 : i64>
    %r = "fly.alloca"() {bytes = 16 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.copy_atom_call"(%a, %r, %p) : (!fly.copy_atom<"universal_copy<128>", 32 : i64>, !fly.ptr<f32, "register", 4 : i64, "">, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// Memory to memory has no vector; registers to registers have no call.
// CHECK-LABEL: gpu.func @same_kind(
// CHECK-SAME: %[[P:.*]]: !fly.ptr<f32, "global", 16 : i64, "">, %[[Q:.*]]: !fly.ptr<f32, "shared"
// CHECK: "fly.copy_atom_call_ssa"(%{{.*}}, %[[P]], %[[Q]]) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
// CHECK: %[[V:.*]] = "fly.ptr_load"(%[[R:.*]]) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<4xf32>
// CHECK-NEXT: "fly.ptr_store"(%[[V]], %[[R]])
gpu.module @kernels {
  gpu.func @same_kind(%p: !fly.ptr<f32, "global", 16 : i64, "">, %q: !fly.ptr<f32, "shared", 16 : i64, "">) kernel {
    %a = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_copy<128>", 32 : i64>
    %r = "fly.alloca"() {bytes = 16 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.copy_atom_call"(%a, %p, %q) : (!fly.copy_atom<"universal_copy<128>", 32 : i64>, !fly.ptr<f32, "global", 16 : i64, "">, !fly.ptr<f32, "shared", 16 : i64, "">) -> ()
    "fly.copy_atom_call"(%a, %r, %r) : (!fly.copy_atom<"universal_copy<128>", 32 : i64>, !fly.ptr<f32, "register", 4 : i64, "">, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    gpu.return
  }
}

// -----

// A predicated load keeps the old value; a predicated store is skipped.
// CHECK-LABEL: gpu.func @predicated(
// CHECK-SAME: %[[P:.*]]: !fly.ptr<f32, "global", 16 : i64, "">, %[[C:.*]]: i1)
// CHECK: %[[V:.*]] = scf.if %[[C]] -> (vector<4xf32>) {
// CHECK: %[[N:.*]] = "fly.copy_atom_call_ssa"
// CHECK: scf.yield %[[N]]
// CHECK: } else {
// CHECK: %[[O:.*]] = "fly.ptr_load"
// CHECK: scf.yield %[[O]]
// CHECK: "fly.ptr_store"(%[[V]]
// CHECK: scf.if %[[C]] {
// CHECK: "fly.copy_atom_call_ssa"
gpu.module @kernels {
  gpu.func @predicated(%p: !fly.ptr<f32, "global", 16 : i64, "">, %c: i1) kernel {
    %a = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_copy<128>", 32 : i64>
    %r = "fly.alloca"() {bytes = 16 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.copy_atom_call"(%a, %p, %r, %c) : (!fly.copy_atom<"universal_copy<128>", 32 : i64>, !fly.ptr<f32, "global", 16 : i64, "">, !fly.ptr<f32, "register", 4 : i64, "">, i1) -> ()
    "fly.copy_atom_call"(%a, %r, %p, %c) : (!fly.copy_atom<"universal_copy<128>", 32 : i64>, !fly.ptr<f32, "register", 4 : i64, "">, !fly.ptr<f32, "global", 16 : i64, "">, i1) -> ()
    gpu.return
  }
}

// -----

// An MMA call works on vectors of its operands' values.
// CHECK-LABEL: gpu.func @mma(
// CHECK-COUNT-3: "fly.ptr_load"(%{{.*}}) : (!fly.ptr<f32, "register", 4 : i64, "">) -> vector<1xf32>
// CHECK: %[[D:.*]] = "fly.mma_atom_call_ssa"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}
// CHECK: "fly.ptr_store"(%[[D]]
gpu.module @kernels {
  gpu.func @mma() kernel {
    %m = "fly.make_mma_atom"() : () -> !fly.mma_atom<"universal_fma<f32>">
    %r = "fly.alloca"() {bytes = 4 : i64} : () -> !fly.ptr<f32, "register", 4 : i64, "">
    "fly.mma_atom_call"(%m, %r, %r, %r, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>} : (!fly.mma_atom<"universal_fma<f32>">, !fly.ptr<f32, "register", 4 : i64, "">, !fly.ptr<f32, "register", 4 : i64, "">, !fly.ptr<f32, "register", 4 : i64, "">, !fly.ptr<f32, "register", 4 : i64, "">) -> ()
    gpu.return
  }
}
