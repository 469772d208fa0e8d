// TARGETS: gfx942 gfx1100

gpu.module @m {
  // Lanes leave at different times with a counter that all of them share.
  // CHECK-LABEL: gpu.func @counter(
  gpu.func @counter(%p: memref<4xi32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %t = gpu.thread_id x
    %lane = arith.index_cast %t : index to i32
    // CHECK: scf.while
    // CHECK: %[[COPY:.*]] = llvm.call_intrinsic "llvm.amdgcn.update.dpp.i32"
    // CHECK: scf.condition(%{{.*}}) %[[COPY]]
    %n = scf.while (%k = %zero) : (i32) -> i32 {
      %more = arith.cmpi slt, %k, %lane : i32
      scf.condition(%more) %k : i32
    } do {
    ^bb0(%k: i32):
      %next = arith.addi %k, %one : i32
      scf.yield %next : i32
    }
    %use = arith.index_cast %n : i32 to index
    gpu.return
  }

  // All lanes leave together.
  // CHECK-LABEL: gpu.func @together(
  // CHECK-NOT: update.dpp
  gpu.func @together(%most: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %n = scf.while (%k = %zero) : (i32) -> i32 {
      %more = arith.cmpi slt, %k, %most : i32
      scf.condition(%more) %k : i32
    } do {
    ^bb0(%k: i32):
      %next = arith.addi %k, %one : i32
      scf.yield %next : i32
    }
    %use = arith.index_cast %n : i32 to index
    gpu.return
  }

  // Nothing reads the counter afterwards.
  // CHECK-LABEL: gpu.func @unused(
  // CHECK-NOT: update.dpp
  gpu.func @unused() {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %t = gpu.thread_id x
    %lane = arith.index_cast %t : index to i32
    %n = scf.while (%k = %zero) : (i32) -> i32 {
      %more = arith.cmpi slt, %k, %lane : i32
      scf.condition(%more) %k : i32
    } do {
    ^bb0(%k: i32):
      %next = arith.addi %k, %one : i32
      scf.yield %next : i32
    }
    gpu.return
  }

  // A sum that starts and goes on differently in every lane is in a vector register anyway.
  // CHECK-LABEL: gpu.func @own(
  // CHECK-NOT: update.dpp
  gpu.func @own() {
    %one = arith.constant 1 : i32
    %t = gpu.thread_id x
    %lane = arith.index_cast %t : index to i32
    %n = scf.while (%k = %lane) : (i32) -> i32 {
      %more = arith.cmpi slt, %k, %one : i32
      scf.condition(%more) %k : i32
    } do {
    ^bb0(%k: i32):
      %next = arith.addi %k, %lane : i32
      scf.yield %next : i32
    }
    %use = arith.index_cast %n : i32 to index
    gpu.return
  }

  // A half that one arm of a branch takes from all lanes' counter.
  // CHECK-LABEL: gpu.func @mixed(
  gpu.func @mixed() {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %start = arith.constant 0.0 : f16
    %t = gpu.thread_id x
    %lane = arith.index_cast %t : index to i32
    // CHECK: scf.while
    // CHECK: llvm.zext
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.update.dpp.i32"
    // CHECK: llvm.trunc
    // CHECK: llvm.bitcast
    // CHECK: scf.condition
    %n:2 = scf.while (%k = %zero, %v = %start) : (i32, f16) -> (i32, f16) {
      %more = arith.cmpi slt, %k, %lane : i32
      scf.condition(%more) %k, %v : i32, f16
    } do {
    ^bb0(%k: i32, %v: f16):
      %next = arith.addi %k, %one : i32
      %even = arith.cmpi eq, %lane, %one : i32
      %w = scf.if %even -> f16 {
        %c = arith.sitofp %next : i32 to f16
        scf.yield %c : f16
      } else {
        scf.yield %v : f16
      }
      scf.yield %next, %w : i32, f16
    }
    %use = arith.extf %n#1 : f16 to f32
    gpu.return
  }
}
