// TARGETS: gfx942 gfx950 gfx1100 gfx1201 gfx1250

gpu.module @m {
  // CHECK-LABEL: gpu.func @bytes(
  gpu.func @bytes(%x: f32, %v: vector<4xf32>, %c: vector<4xi8>) {
    // CHECK-GFX942: "llvm.amdgcn.cvt.pk.fp8.f32"
    // CHECK-GFX950: arith.addf
    // CHECK-GFX1100: arith.addf
    %0 = arith.truncf %x : f32 to f8E4M3FNUZ
    // CHECK-GFX950: "llvm.amdgcn.cvt.pk.bf8.f32"
    // CHECK-GFX950: "llvm.amdgcn.cvt.pk.bf8.f32"
    // CHECK-GFX1201: "llvm.amdgcn.cvt.pk.bf8.f32"
    // CHECK-GFX1250: "llvm.amdgcn.cvt.pk.bf8.f32"
    // CHECK-GFX1100: arith.addf {{.*}} : vector<4xf32>
    %1 = arith.truncf %v : vector<4xf32> to vector<4xf8E5M2>
    // CHECK-GFX950: "llvm.amdgcn.cvt.pk.f32.fp8"
    // CHECK-GFX1201: "llvm.amdgcn.cvt.pk.f32.fp8"
    // CHECK-GFX1100: arith.uitofp {{.*}} : vector<4xi32> to vector<4xf32>
    %2 = arith.bitcast %c : vector<4xi8> to vector<4xf8E4M3FN>
    %3 = arith.extf %2 : vector<4xf8E4M3FN> to vector<4xf32>
    // A rounding mode needs the integer sequence.
    // CHECK-NOT: cvt.pk.fp8
    // CHECK: arith.shrui
    %4 = arith.truncf %x toward_zero : f32 to f8E4M3FN
    gpu.return
  }

  // CHECK-LABEL: gpu.func @scaled(
  gpu.func @scaled(%v: vector<8xf32>, %w: vector<32xf32>) {
    // CHECK-GFX950-COUNT-4: "llvm.amdgcn.cvt.scalef32.pk.fp4.f32"
    // CHECK-GFX942-NOT: scalef32
    // CHECK-GFX1201-NOT: scalef32
    %0 = arith.truncf %v : vector<8xf32> to vector<8xf4E2M1FN>
    // CHECK-GFX950: "llvm.amdgcn.cvt.scalef32.2xpk16.bf6.f32"
    %1 = arith.truncf %w : vector<32xf32> to vector<32xf6E3M2FN>
    // CHECK-GFX950: "llvm.amdgcn.cvt.scalef32.pk32.f32.bf6"
    %2 = arith.extf %1 : vector<32xf6E3M2FN> to vector<32xf32>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @others(
  gpu.func @others(%x: f32, %i: i32, %d: f64) {
    // What LLVM converts itself is left alone.
    // CHECK-NEXT: arith.truncf %arg0 : f32 to f16
    %0 = arith.truncf %x : f32 to f16
    // CHECK-NEXT: arith.truncf %arg2 : f64 to f32
    %1 = arith.truncf %d : f64 to f32
    // CHECK-NEXT: arith.sitofp %arg1 : i32 to f32
    %2 = arith.sitofp %i : i32 to f32
    // CHECK: "llvm.ctlz"
    // CHECK: arith.truncf {{.*}} : f32 to bf16
    %3 = arith.sitofp %i : i32 to bf16
    // CHECK: arith.truncf %arg0 : f32 to f16
    // CHECK-NOT: roundingmode
    // CHECK: arith.select
    %4 = arith.truncf %x upward : f32 to f16
    gpu.return
  }
}
