// TARGETS: gfx942

gpu.module @m {
  // CHECK-LABEL: gpu.func @divisions(
  gpu.func @divisions(%a: i32, %b: i32, %v: vector<2xi64>) {
    // CHECK: %[[Q:.*]] = arith.divsi %arg0, %arg1
    // CHECK: %[[LESS:.*]] = arith.subi %[[Q]]
    // CHECK: arith.select %{{.*}}, %[[LESS]], %[[Q]]
    %0 = arith.floordivsi %a, %b : i32
    // CHECK: %[[Q2:.*]] = arith.divsi %arg0, %arg1
    // CHECK: %[[MORE:.*]] = arith.addi %[[Q2]]
    // CHECK: arith.select %{{.*}}, %[[MORE]], %[[Q2]]
    %1 = arith.ceildivsi %a, %b : i32
    // CHECK: arith.divui
    %2 = arith.ceildivui %a, %b : i32
    // CHECK: arith.cmpi ne, %{{.*}}, %{{.*}} : vector<2xi64>
    %3 = arith.floordivsi %v, %v : vector<2xi64>
    gpu.return
  }
}
