// TARGETS: gfx942 gfx950 gfx1100

gpu.module @m {
  // CHECK-LABEL: gpu.func @within_quads(
  gpu.func @within_quads(%x: f32) {
    %w = arith.constant 32 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    // CHECK: %[[BITS:.*]] = llvm.bitcast %{{.*}} : f32 to i32
    // CHECK: rocdl.update.dpp %[[BITS]], %[[BITS]] with 177, 15, 15, true : i32
    %a, %av = gpu.shuffle xor %x, %c1, %w : f32
    // CHECK: rocdl.update.dpp %{{.*}} with 78, 15, 15, true : i32
    %b, %bv = gpu.shuffle xor %x, %c2, %w : f32
    gpu.return
  }

  // CHECK-LABEL: gpu.func @within_rows(
  gpu.func @within_rows(%x: i32) {
    %w = arith.constant 32 : i32
    %c4 = arith.constant 4 : i32
    %c5 = arith.constant 5 : i32
    %c8 = arith.constant 8 : i32
    // CHECK-GFX942: %[[UP:.*]] = rocdl.update.dpp %{{.*}} with 260, 15, 5, false : i32
    // CHECK-GFX942: rocdl.update.dpp %[[UP]], %{{.*}} with 276, 15, 10, false : i32
    // CHECK-GFX1100: rocdl.update.dpp %{{.*}} with 356, 15, 15, true : i32
    %a, %av = gpu.shuffle xor %x, %c4, %w : i32
    // CHECK-GFX950: llvm.call_intrinsic "llvm.amdgcn.ds.swizzle"
    // CHECK-GFX1100: rocdl.update.dpp %{{.*}} with 357, 15, 15, true : i32
    %b, %bv = gpu.shuffle xor %x, %c5, %w : i32
    // CHECK-GFX942: rocdl.update.dpp %{{.*}} with 296, 15, 15, true : i32
    // CHECK-GFX1100: rocdl.update.dpp %{{.*}} with 360, 15, 15, true : i32
    %c, %cv = gpu.shuffle xor %x, %c8, %w : i32
    gpu.return
  }

  // CHECK-LABEL: gpu.func @between_rows(
  gpu.func @between_rows(%x: i32) {
    %w = arith.constant 32 : i32
    %c16 = arith.constant 16 : i32
    // CHECK-GFX942: llvm.mlir.constant(16415 : i32)
    // CHECK-GFX942: llvm.call_intrinsic "llvm.amdgcn.ds.swizzle"
    // CHECK-GFX950: llvm.call_intrinsic "llvm.amdgcn.permlane16.swap"
    // CHECK-GFX1100: llvm.call_intrinsic "llvm.amdgcn.permlanex16"
    %a, %av = gpu.shuffle xor %x, %c16, %w : i32
    gpu.return
  }

  // CHECK-LABEL: gpu.func @computed_lane(
  gpu.func @computed_lane(%x: i64, %i: i32) {
    %w = arith.constant 16 : i32
    // CHECK: llvm.trunc %{{.*}} : i64 to i32
    // CHECK: llvm.lshr
    // CHECK: "llvm.amdgcn.mbcnt.lo"
    // CHECK: llvm.icmp "sge"
    // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.ds.bpermute"
    // CHECK: llvm.or
    %a, %av = gpu.shuffle up %x, %i, %w : i64
    // CHECK: llvm.icmp "slt"
    %b, %bv = gpu.shuffle down %x, %i, %w : i64
    // CHECK: llvm.and
    // CHECK: llvm.or
    %c, %cv = gpu.shuffle idx %x, %i, %w : i64
    gpu.return
  }

  // CHECK-LABEL: gpu.func @narrow(
  gpu.func @narrow(%x: bf16) {
    %w = arith.constant 32 : i32
    %c1 = arith.constant 1 : i32
    // CHECK: llvm.bitcast %{{.*}} : bf16 to i16
    // CHECK: llvm.zext %{{.*}} : i16 to i32
    // CHECK: llvm.trunc %{{.*}} : i32 to i16
    // CHECK: llvm.bitcast %{{.*}} : i16 to bf16
    %a, %av = gpu.shuffle xor %x, %c1, %w : bf16
    gpu.return
  }
}
