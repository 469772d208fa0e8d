// TARGETS: gfx942 gfx1100

gpu.module @m {
  // CHECK-DAG: llvm.func @__fly_tanh(f32) -> f32
  // CHECK-DAG: llvm.func @__fly_pow(f32, f32) -> f32
  // CHECK-DAG: llvm.func @__fly_fmod_f64(f64, f64) -> f64
  // CHECK-DAG: llvm.func @__fly_erf(f32) -> f32
  // CHECK-DAG: llvm.func @__fly_rsqrt(f32) -> f32

  // CHECK-LABEL: gpu.func @intrinsics(
  gpu.func @intrinsics(%x: f32, %d: f64, %v: vector<2xf32>) {
    // CHECK: llvm.call_intrinsic "llvm.exp"(%{{.*}}) : (f32) -> f32
    %0 = math.exp %x : f32
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.exp2"(%{{.*}}) : (f32) -> f32
    %1 = math.exp2 %x fastmath<fast> : f32
    // CHECK: llvm.call_intrinsic "llvm.log2"(%{{.*}}) : (vector<2xf32>) -> vector<2xf32>
    %2 = math.log2 %v : vector<2xf32>
    // CHECK: llvm.call_intrinsic "llvm.sqrt"(%{{.*}}) : (f64) -> f64
    %3 = math.sqrt %d : f64
    // CHECK: llvm.call_intrinsic "llvm.fma"
    %4 = math.fma %x, %x, %x : f32
    // CHECK: llvm.call_intrinsic "llvm.floor"
    %5 = math.floor %x : f32
    // CHECK: llvm.call_intrinsic "llvm.roundeven"
    %6 = math.roundeven %x : f32
    // CHECK: llvm.call @__fly_fmod_f64(%{{.*}}, %{{.*}}) : (f64, f64) -> f64
    %7 = arith.remf %d, %d : f64
    // CHECK: llvm.intr.is.fpclass
    %8 = math.isnan %x : f32
    gpu.return
  }

  // CHECK-LABEL: gpu.func @library(
  gpu.func @library(%x: f32, %h: f16, %v: vector<2xbf16>) {
    // CHECK: llvm.call @__fly_tanh(%{{.*}}) : (f32) -> f32
    %0 = math.tanh %x : f32
    // CHECK: %[[WIDE:.*]] = llvm.fpext %{{.*}} : f16 to f32
    // CHECK: %[[TANH:.*]] = llvm.call @__fly_tanh(%[[WIDE]])
    // CHECK: llvm.fptrunc %[[TANH]] : f32 to f16
    %1 = math.tanh %h : f16
    // CHECK: llvm.call @__fly_pow
    %2 = math.powf %x, %x : f32
    // CHECK: llvm.fpext %{{.*}} : vector<2xbf16> to vector<2xf32>
    // CHECK-COUNT-2: llvm.call @__fly_erf
    // CHECK: llvm.fptrunc %{{.*}} : vector<2xf32> to vector<2xbf16>
    %3 = math.erf %v : vector<2xbf16>
    // CHECK: llvm.call @__fly_rsqrt(
    %4 = math.rsqrt %x : f32
    // CHECK: llvm.call @__fly_rsqrt_fast(
    %5 = math.rsqrt %x fastmath<afn> : f32
    // CHECK: llvm.call_intrinsic "llvm.sin"
    %6 = math.sin %x fastmath<afn> : f32
    gpu.return
  }

  // CHECK-LABEL: gpu.func @several(
  gpu.func @several(%x: f32, %h: f16) {
    // CHECK: llvm.call @__fly_sin(
    // CHECK: llvm.call @__fly_cos(
    %s, %c = math.sincos %x : f32
    // CHECK: llvm.fpext
    // CHECK: llvm.call @__fly_sin(
    // CHECK-NEXT: llvm.fptrunc
    %sh, %ch = math.sincos %h : f16
    // CHECK: %[[LOW:.*]] = llvm.call_intrinsic "llvm.maxnum"(%arg0, %{{.*}})
    // CHECK: llvm.call_intrinsic "llvm.minnum"(%[[LOW]], %arg0)
    %l = math.clampf %x to [%s, %x] : f32
    gpu.return
  }

  // CHECK-LABEL: gpu.func @bits(
  gpu.func @bits(%i: i32) {
    // CHECK: llvm.call_intrinsic "llvm.ctpop"
    %0 = math.ctpop %i : i32
    // CHECK: llvm.call_intrinsic "llvm.ctlz"(%{{.*}}, %{{.*}}) : (i32, i1) -> i32
    %1 = math.ctlz %i : i32
    // CHECK: llvm.call_intrinsic "llvm.abs"(%{{.*}}, %{{.*}}) : (i32, i1) -> i32
    %2 = math.absi %i : i32
    gpu.return
  }
}
