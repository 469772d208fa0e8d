// TARGETS: gfx942 gfx950

!f16 = !fly.mma_atom<"mfma<32,32,8,f16,f16,f32>">

gpu.module @m {
  // Wait states follow each loop that has matrix instructions of its own, behind branches too.
  // CHECK-LABEL: gpu.func @sums(
  gpu.func @sums(%h: vector<4xf16>, %c: vector<16xf32>, %n: i32, %rare: i1, %p: memref<1xi32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %a = "fly.make_mma_atom"() : () -> !f16
    // CHECK: scf.for
    // CHECK: scf.for
    // CHECK: amdgcn.mfma
    // CHECK: scf.yield
    // CHECK: scf.yield
    // CHECK: scf.yield
    // CHECK-NEXT: }
    // CHECK-NEXT: rocdl.s.nop 15
    // CHECK-NEXT: rocdl.s.nop 3
    // CHECK-NEXT: rocdl.sched.barrier
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
}
