// TARGETS: gfx942 gfx1201

!g = !fly.ptr<f32, "global", 16 : i64, "">
!w = !fly.ptr<f32, "wide_buffer", 16 : i64, "">
!v = !fly.ptr<f32, "wide_buffer", 4 : i64, "">
!copy = !fly.copy_atom<"buffer_copy<128,0>", 32 : i64>

gpu.module @m {
  // The block's part of the index moves the base, the thread's stays a 32-bit offset.
  // CHECK-LABEL: gpu.func @near(
  gpu.func @near(%p: !g, %e: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %b = "fly.make_ptr"(%p, %e) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!g, i64) -> !w
    %block = gpu.block_id x
    %thread = gpu.thread_id x
    %u = arith.index_cast %block : index to i32
    %t = arith.index_cast %thread : index to i32
    %c = arith.constant 1024 : i32
    %four = arith.constant 4 : i32
    %m = arith.muli %u, %c : i32
    %d = arith.muli %t, %four : i32
    %i = arith.addi %m, %d : i32
    %q = "fly.add_offset"(%b, %i) : (!w, i32) -> !w
    %atom = "fly.make_copy_atom"() : () -> !copy

    // CHECK: llvm.call_intrinsic "llvm.smax"
    // CHECK: llvm.call_intrinsic "llvm.smin"
    // CHECK: llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
    // CHECK: make.buffer.rsrc
    // CHECK: llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<7>, i32) -> !llvm.ptr<7>, i8
    // CHECK: llvm.load %{{.*}} : !llvm.ptr<7> -> vector<4xf32>
    %x = "fly.copy_atom_call_ssa"(%atom, %q) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!copy, !w) -> vector<4xf32>
    "fly.copy_atom_call_ssa"(%atom, %x, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!copy, vector<4xf32>, !w) -> ()
    gpu.return
  }

  // A lane's row times a stride that is not known can be anywhere: compared, then global memory.
  // CHECK-LABEL: gpu.func @anywhere(
  gpu.func @anywhere(%p: !g, %e: i64, %stride: i64) kernel {
    %b = "fly.make_ptr"(%p, %e) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!g, i64) -> !w
    %thread = gpu.thread_id x
    %t = arith.index_cast %thread : index to i64
    %i = arith.muli %t, %stride : i64
    // CHECK-NOT: make.buffer.rsrc
    %q = "fly.add_offset"(%b, %i) : (!w, i64) -> !v
    // CHECK: llvm.icmp "ult"
    // CHECK: scf.if
    // CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> f32
    %x = "fly.ptr_load"(%q) : (!v) -> f32
    // CHECK: scf.if
    // CHECK: llvm.store %{{.*}}, %{{.*}} : f32, !llvm.ptr<1>
    "fly.ptr_store"(%x, %q) : (f32, !v) -> ()
    gpu.return
  }
}
