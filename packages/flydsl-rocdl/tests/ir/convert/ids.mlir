// TARGETS: gfx942 gfx1201

gpu.module @m {
  // CHECK-LABEL: gpu.func @known_block(
  gpu.func @known_block(%out: !fly.ptr<i32, "global", 4 : i64, "">) kernel
      attributes {known_block_size = array<i32: 64, 4, 1>} {
    %x = gpu.thread_id x
    %y = gpu.thread_id y
    %z = gpu.thread_id z
    %b = gpu.block_id y
    %d = gpu.block_dim y
    %xi = arith.index_cast %x : index to i32
    %yi = arith.index_cast %y : index to i32
    %zi = arith.index_cast %z : index to i32
    %bi = arith.index_cast %b : index to i32
    %di = arith.index_cast %d : index to i32
    // CHECK-DAG: rocdl.workitem.id.x range <i32, 0, 64> : i32
    // CHECK-DAG: rocdl.workitem.id.y range <i32, 0, 4> : i32
    // CHECK-NOT: rocdl.workitem.id.z
    // CHECK-DAG: rocdl.workgroup.id.y range <i32, 0, 65535> : i32
    // CHECK-DAG: llvm.mlir.constant(4 : i32)
    // CHECK-NOT: implicitarg
    // CHECK-NOT: arith.index_cast {{.*}} index to i32
    // CHECK: arith.addi
    %s0 = arith.addi %xi, %yi : i32
    %s1 = arith.addi %s0, %zi : i32
    %s2 = arith.addi %s1, %bi : i32
    %s3 = arith.addi %s2, %di : i32
    "fly.ptr_store"(%s3, %out) : (i32, !fly.ptr<i32, "global", 4 : i64, "">) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @unknown_block(
  // CHECK-SAME: rocdl.flat_work_group_size = "1,1024"
  gpu.func @unknown_block(%out: !fly.ptr<i32, "global", 4 : i64, "">) kernel {
    // CHECK: %[[BASE:.*]] = llvm.call_intrinsic "llvm.amdgcn.implicitarg.ptr"()
    // CHECK: %[[AT:.*]] = llvm.getelementptr %[[BASE]][16]
    // CHECK: %[[SIZE:.*]] = llvm.load %[[AT]] invariant {alignment = 2 : i64} : !llvm.ptr<4> -> i16
    // CHECK: llvm.zext %[[SIZE]] : i16 to i32
    %d = gpu.block_dim z
    // CHECK: %[[BASE2:.*]] = llvm.call_intrinsic "llvm.amdgcn.implicitarg.ptr"()
    // CHECK: %[[AT2:.*]] = llvm.getelementptr %[[BASE2]][4]
    // CHECK: llvm.load %[[AT2]] invariant {alignment = 4 : i64} : !llvm.ptr<4> -> i32
    %g = gpu.grid_dim y
    %di = arith.index_cast %d : index to i32
    %gi = arith.index_cast %g : index to i32
    // CHECK: rocdl.workitem.id.z range <i32, 0, 1024> : i32
    %t = gpu.thread_id z
    %ti = arith.index_cast %t : index to i32
    %s0 = arith.addi %di, %gi : i32
    %s1 = arith.addi %s0, %ti : i32
    "fly.ptr_store"(%s1, %out) : (i32, !fly.ptr<i32, "global", 4 : i64, "">) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @lanes(
  gpu.func @lanes(%out: !fly.ptr<i32, "global", 4 : i64, "">) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    // CHECK: "llvm.amdgcn.mbcnt.lo"
    // CHECK-GFX942: "llvm.amdgcn.mbcnt.hi"
    // CHECK-GFX942: llvm.mlir.constant(64 : i32)
    // CHECK-GFX1201-NOT: "llvm.amdgcn.mbcnt.hi"
    // CHECK-GFX1201: llvm.mlir.constant(32 : i32)
    %l = gpu.lane_id
    %w = gpu.subgroup_size : index
    %li = arith.index_cast %l : index to i32
    %wi = arith.index_cast %w : index to i32
    %s = arith.addi %li, %wi : i32
    // CHECK: llvm.fence syncscope("workgroup") release
    // CHECK-NEXT: rocdl.s.barrier
    // CHECK-NEXT: llvm.fence syncscope("workgroup") acquire
    gpu.barrier
    "fly.ptr_store"(%s, %out) : (i32, !fly.ptr<i32, "global", 4 : i64, "">) -> ()
    gpu.return
  }
  // CHECK: llvm.module_flags [#llvm.mlir.module_flag<error, "amdhsa_code_object_version", 600 : i32>]
}
