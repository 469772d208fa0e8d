// TARGETS: gfx942 gfx950

!f16 = !fly.mma_atom<"mfma<32,32,8,f16,f16,f32>">
!slow = !fly.mma_atom<"mfma<32,32,2,f32,f32,f32>">

gpu.module @m {
  // Wait states follow each loop that has matrix instructions of its own, and the end of the branch
  // that has one; the loop's body does not end in any.
  // CHECK-LABEL: gpu.func @sums(
  gpu.func @sums(%h: vector<4xf16>, %c: vector<16xf32>, %n: i32, %rare: i1, %p: memref<1xi32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %a = "fly.make_mma_atom"() : () -> !f16
    // CHECK-NOT: rocdl.s.nop
    // CHECK: scf.for
    // CHECK-NOT: rocdl.s.nop
    // CHECK: scf.for
    // CHECK: scf.if
    // CHECK: amdgcn.mfma
    // 8 passes and 4: 12 states.
    // CHECK-NEXT: rocdl.sched.barrier 0
    // CHECK-NEXT: rocdl.s.nop 10
    // CHECK-NEXT: rocdl.s.nop 0
    // CHECK-NEXT: rocdl.sched.barrier 0
    // CHECK-NEXT: scf.yield
    // CHECK-NEXT: } else {
    // CHECK-NEXT: scf.yield
    // CHECK-NEXT: }
    // CHECK-NEXT: scf.yield
    // CHECK-NEXT: }
    // CHECK-NEXT: rocdl.sched.barrier 0
    // CHECK-NEXT: rocdl.s.nop 9
    // CHECK-NEXT: rocdl.s.nop 1
    // CHECK-NEXT: rocdl.sched.barrier 0
    // CHECK-NEXT: scf.yield
    // CHECK-NEXT: }
    // CHECK-NEXT: scf.for
    %outer = scf.for %i = %zero to %n step %one iter_args(%s = %c) -> (vector<16xf32>) : i32 {
      %inner = scf.for %j = %zero to %n step %one iter_args(%t = %s) -> (vector<16xf32>) : i32 {
        %next = scf.if %rare -> (vector<16xf32>) {
          %d = "fly.mma_atom_call_ssa"(%a, %h, %h, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!f16, vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
          scf.yield %d : vector<16xf32>
        } else {
          scf.yield %t : vector<16xf32>
        }
        scf.yield %next : vector<16xf32>
      }
      scf.yield %inner : vector<16xf32>
    }
    // CHECK-NOT: rocdl.s.nop
    %plain = scf.for %i = %zero to %n step %one iter_args(%s = %outer) -> (vector<16xf32>) : i32 {
      %sum = arith.addf %s, %s : vector<16xf32>
      scf.yield %sum : vector<16xf32>
    }
    gpu.return
  }

  // Both branches of an `if` behind a product begin with wait states; where one is empty, the path
  // through it stays short, so that what follows settles the product again.
  // CHECK-LABEL: gpu.func @branches(
  gpu.func @branches(%x: f32, %c: vector<16xf32>, %n: i32, %rare: i1, %p: memref<1xi32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %a = "fly.make_mma_atom"() : () -> !slow
    // CHECK: amdgcn.mfma
    // CHECK-NEXT: scf.if
    // CHECK-NEXT: rocdl.sched.barrier 0
    // CHECK-NEXT: rocdl.s.nop 15
    // CHECK-NEXT: rocdl.s.nop 3
    // CHECK-NEXT: rocdl.sched.barrier 0
    // CHECK-NEXT: arith.addf
    // CHECK-NEXT: scf.yield
    // CHECK-NEXT: } else {
    // CHECK-NEXT: scf.yield
    // CHECK-NEXT: }
    // CHECK-NEXT: rocdl.sched.barrier 0
    // CHECK-NEXT: rocdl.s.nop 14
    // CHECK-NEXT: rocdl.s.nop 4
    // CHECK-NEXT: rocdl.sched.barrier 0
    // CHECK-NEXT: scf.for
    // CHECK: amdgcn.mfma
    // CHECK-NEXT: scf.yield
    %d = "fly.mma_atom_call_ssa"(%a, %x, %x, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!slow, f32, f32, vector<16xf32>) -> vector<16xf32>
    %e = scf.if %rare -> (vector<16xf32>) {
      %f = arith.addf %d, %d : vector<16xf32>
      scf.yield %f : vector<16xf32>
    } else {
      scf.yield %d : vector<16xf32>
    }
    %g = scf.for %i = %zero to %n step %one iter_args(%s = %e) -> (vector<16xf32>) : i32 {
      %t = "fly.mma_atom_call_ssa"(%a, %x, %x, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!slow, f32, f32, vector<16xf32>) -> vector<16xf32>
      scf.yield %t : vector<16xf32>
    }
    gpu.return
  }
}
