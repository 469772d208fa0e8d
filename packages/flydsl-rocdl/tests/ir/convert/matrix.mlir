// TARGETS: gfx942

!f16 = !fly.mma_atom<"mfma<16,16,16,f16,f16,f32>">
!bf16 = !fly.mma_atom<"mfma<32,32,8,bf16,bf16,f32>">
!i8 = !fly.mma_atom<"mfma<16,16,32,i8,i8,i32>">
!fp8 = !fly.mma_atom<"mfma<16,16,32,f8E4M3FNUZ,f8E5M2FNUZ,f32>">
!f32 = !fly.mma_atom<"mfma<16,16,4,f32,f32,f32>">
!fma = !fly.mma_atom<"universal_fma<f32>">

gpu.module @m {
  // CHECK-LABEL: gpu.func @mfma(
  gpu.func @mfma(%h: vector<4xf16>, %b: vector<4xbf16>, %i: vector<8xi8>, %f: vector<8xf8E4M3FNUZ>,
                 %g: vector<8xf8E5M2FNUZ>, %s: vector<1xf32>, %c: vector<4xf32>,
                 %c16: vector<16xf32>, %ci: vector<4xi32>) {
    %a0 = "fly.make_mma_atom"() : () -> !f16
    // CHECK: "llvm.amdgcn.mfma.f32.16x16x16f16"({{.*}}) : (vector<4xf16>, vector<4xf16>, vector<4xf32>, i32, i32, i32) -> vector<4xf32>
    %0 = "fly.mma_atom_call_ssa"(%a0, %h, %h, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!f16, vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %a1 = "fly.make_mma_atom"() : () -> !bf16
    // CHECK: "llvm.amdgcn.mfma.f32.32x32x8bf16.1k"({{.*}}) : (vector<4xi16>, vector<4xi16>, vector<16xf32>, i32, i32, i32) -> vector<16xf32>
    %1 = "fly.mma_atom_call_ssa"(%a1, %b, %b, %c16) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!bf16, vector<4xbf16>, vector<4xbf16>, vector<16xf32>) -> vector<16xf32>
    %a2 = "fly.make_mma_atom"() : () -> !i8
    // CHECK: "llvm.amdgcn.mfma.i32.16x16x32.i8"({{.*}}) : (i64, i64, vector<4xi32>, i32, i32, i32) -> vector<4xi32>
    %2 = "fly.mma_atom_call_ssa"(%a2, %i, %i, %ci) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!i8, vector<8xi8>, vector<8xi8>, vector<4xi32>) -> vector<4xi32>
    %a3 = "fly.make_mma_atom"() : () -> !fp8
    // CHECK: "llvm.amdgcn.mfma.f32.16x16x32.fp8.bf8"({{.*}}) : (i64, i64, vector<4xf32>, i32, i32, i32) -> vector<4xf32>
    %3 = "fly.mma_atom_call_ssa"(%a3, %f, %g, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!fp8, vector<8xf8E4M3FNUZ>, vector<8xf8E5M2FNUZ>, vector<4xf32>) -> vector<4xf32>
    %a4 = "fly.make_mma_atom"() : () -> !f32
    // CHECK: "llvm.amdgcn.mfma.f32.16x16x4f32"({{.*}}) : (f32, f32, vector<4xf32>, i32, i32, i32) -> vector<4xf32>
    %4 = "fly.mma_atom_call_ssa"(%a4, %s, %s, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!f32, vector<1xf32>, vector<1xf32>, vector<4xf32>) -> vector<4xf32>
    %a5 = "fly.make_mma_atom"() : () -> !fma
    // CHECK: %[[PRODUCT:.*]] = arith.mulf
    // CHECK: arith.addf %[[PRODUCT]]
    %5 = "fly.mma_atom_call_ssa"(%a5, %s, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!fma, vector<1xf32>, vector<1xf32>, vector<1xf32>) -> vector<1xf32>
    gpu.return
  }
}
