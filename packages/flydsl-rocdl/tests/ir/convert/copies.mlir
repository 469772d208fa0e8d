// TARGETS: gfx942

!g = !fly.ptr<f32, "global", 16 : i64, "">
!u = !fly.ptr<i32, "global", 4 : i64, "">
!copy = !fly.copy_atom<"universal_copy<128>", 32 : i64>

gpu.module @m {
  // CHECK-LABEL: gpu.func @load_and_store(
  gpu.func @load_and_store(%a: !g, %b: !g) kernel {
    // CHECK-NOT: fly.
    %atom = "fly.make_copy_atom"() : () -> !copy
    // CHECK: %[[V:.*]] = llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v = "fly.copy_atom_call_ssa"(%atom, %a) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!copy, !g) -> vector<4xf32>
    // CHECK: llvm.store %[[V]], %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    "fly.copy_atom_call_ssa"(%atom, %v, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!copy, vector<4xf32>, !g) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @memory_to_memory(
  gpu.func @memory_to_memory(%a: !g, %b: !g) kernel {
    %atom = "fly.make_copy_atom"() : () -> !copy
    // CHECK: %[[W:.*]] = llvm.load %{{.*}} -> vector<4xi32>
    // CHECK: llvm.store %[[W]], %{{.*}} : vector<4xi32>, !llvm.ptr<1>
    "fly.copy_atom_call_ssa"(%atom, %a, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!copy, !g, !g) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @predicated(
  gpu.func @predicated(%a: !g, %p: i1, %old: vector<4xf32>) kernel {
    %atom = "fly.make_copy_atom"() : () -> !copy
    // CHECK: %[[V:.*]] = scf.if %[[P:.*]] -> (vector<4xf32>) {
    // CHECK:   %[[L:.*]] = llvm.load
    // CHECK:   scf.yield %[[L]]
    // CHECK: } else {
    // CHECK:   scf.yield %arg2
    %v = "fly.copy_atom_call_ssa"(%atom, %a, %old, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!copy, !g, vector<4xf32>, i1) -> vector<4xf32>
    // CHECK: scf.if %[[P]] {
    // CHECK-NEXT: llvm.store %[[V]]
    "fly.copy_atom_call_ssa"(%atom, %v, %a, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!copy, vector<4xf32>, !g, i1) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @atomics(
  gpu.func @atomics(%f: !g, %u: !u, %x: f32, %i: vector<1xi32>) kernel {
    %fadd = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_atomic<add,f32,>", 32 : i64>
    %umax = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_atomic<max,ui32,workgroup>", 32 : i64>
    %smax = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_atomic<max,i32,>", 32 : i64>
    // CHECK: llvm.atomicrmw fadd %{{.*}}, %{{.*}} syncscope("agent") monotonic
    "fly.copy_atom_call_ssa"(%fadd, %x, %f) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<"universal_atomic<add,f32,>", 32 : i64>, f32, !g) -> ()
    // CHECK: llvm.atomicrmw umax %{{.*}}, %{{.*}} syncscope("workgroup") monotonic
    "fly.copy_atom_call_ssa"(%umax, %i, %u) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<"universal_atomic<max,ui32,workgroup>", 32 : i64>, vector<1xi32>, !u) -> ()
    // CHECK: %[[OLD:.*]] = llvm.atomicrmw max %{{.*}}, %{{.*}} syncscope("agent") monotonic
    // CHECK: llvm.insertelement %[[OLD]]
    %old = "fly.copy_atom_call_ssa"(%smax, %i, %u) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<"universal_atomic<max,i32,>", 32 : i64>, vector<1xi32>, !u) -> vector<1xi32>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @buffer_copies(
  gpu.func @buffer_copies(%p: !fly.ptr<f32, "global", 16 : i64, "">, %s: i32) kernel {
    %b = "fly.make_ptr"(%p) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (!g) -> !fly.ptr<f32, "buffer", 16 : i64, "">
    %plain = "fly.make_copy_atom"() : () -> !fly.copy_atom<"buffer_copy<64,2>", 32 : i64>
    %atom = "fly.atom_set_value"(%plain, %s) {field = "soffset"} : (!fly.copy_atom<"buffer_copy<64,2>", 32 : i64>, i32) -> !fly.copy_atom<"buffer_copy<64,2>", 32 : i64>
    // CHECK: %[[AT:.*]] = llvm.getelementptr %{{.*}}[%arg1] : (!llvm.ptr<7>, i32) -> !llvm.ptr<7>, f32
    // CHECK: %[[V:.*]] = llvm.load %[[AT]] {alignment = 16 : i64, nontemporal} : !llvm.ptr<7> -> vector<2xf32>
    %v = "fly.copy_atom_call_ssa"(%atom, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fly.copy_atom<"buffer_copy<64,2>", 32 : i64>, !fly.ptr<f32, "buffer", 16 : i64, "">) -> vector<2xf32>
    // CHECK: llvm.store %[[V]], %{{.*}} {alignment = 16 : i64, nontemporal} : vector<2xf32>, !llvm.ptr<7>
    "fly.copy_atom_call_ssa"(%plain, %v, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<"buffer_copy<64,2>", 32 : i64>, vector<2xf32>, !fly.ptr<f32, "buffer", 16 : i64, "">) -> ()
    gpu.return
  }
}
