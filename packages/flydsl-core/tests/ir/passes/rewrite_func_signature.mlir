// RUN: fly-rewrite-func-signature

// A tensor parameter becomes its pointer, then 32-bit leaves, then 64-bit ones.
// CHECK-LABEL: gpu.func @tensor(
// CHECK-SAME: %[[P:.*]]: !fly.ptr<f32, "global", 16 : i64, "">, %[[M:.*]]: i32, %[[N:.*]]: i32, %[[S:.*]]: i64, %[[X:.*]]: i32)
// CHECK: %[[V:.*]] = "fly.pack"(%[[P]], %[[M]], %[[N]], %[[S]]) {operandSegmentSizes = array<i32: 1, 2, 1>}
// CHECK: "fly.get_layout"(%[[V]])
gpu.module @kernels {
  gpu.func @tensor(%a: !fly.memref<f32, "global", "(?,?):(?{i64},1)", 16 : i64>, %x: i32) kernel {
    %l = "fly.get_layout"(%a) : (!fly.memref<f32, "global", "(?,?):(?{i64},1)", 16 : i64>) -> !fly.layout<"(?,?):(?{i64},1)">
    gpu.return
  }
}

// -----

// Static parts need no parameter; a static layout is a constant.
// CHECK-LABEL: gpu.func @static_layout(
// CHECK-SAME: %{{.*}}: i32)
// CHECK: "fly.static"() : () -> !fly.layout<"(4,8):(1,4)">
gpu.module @kernels {
  gpu.func @static_layout(%a: !fly.layout<"(4,8):(1,4)">, %x: i32) kernel {
    %l = "fly.size"(%a) : (!fly.layout<"(4,8):(1,4)">) -> !fly.int_tuple<"32">
    gpu.return
  }
}

// -----

// A launch passes the leaves and remembers the types.
// CHECK-LABEL: func.func @launch(
// CHECK-SAME: %[[P:.*]]: !fly.ptr<f32, "global", 4 : i64, "">, %[[N:.*]]: i32, %[[S:.*]]: i64)
// CHECK: gpu.launch_func <%[[S]] : i64> @kernels::@kernel
// CHECK-SAME: args(%{{.*}} : !fly.ptr<f32, "global", 4 : i64, "">, %{{.*}} : i32, %[[N2:.*]] : i32)
// CHECK-SAME: fly.arg_types = [!fly.memref<f32, "global", "?:1", 4 : i64>, i32]
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%a: !fly.memref<f32, "global", "?:1", 4 : i64>, %n: i32) kernel {
      gpu.return
    }
  }
  func.func @launch(%a: !fly.memref<f32, "global", "?:1", 4 : i64>, %stream: i64) {
    %c = arith.constant 1 : i32
    gpu.launch_func <%stream : i64> @kernels::@kernel blocks in (%c, %c, %c) threads in (%c, %c, %c) : i32 dynamic_shared_memory_size %c args(%a : !fly.memref<f32, "global", "?:1", 4 : i64>, %c : i32)
    return
  }
}

// -----

// Loop-carried tuples are carried as their leaves.
// CHECK-LABEL: gpu.func @carried(
// CHECK: %[[R:.*]] = scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[I:.*]] = %{{.*}}) -> (i32)
// CHECK: %[[T:.*]] = "fly.pack"(%[[I]])
// CHECK: %[[U:.*]] = "fly.int_tuple_add"(%[[T]]
// CHECK: %[[L:.*]] = "fly.unpack"(%[[U]])
// CHECK: scf.yield %[[L]] : i32
// CHECK: "fly.pack"(%[[R]])
gpu.module @kernels {
  gpu.func @carried(%n: i32, %m: index) kernel {
    %t = "fly.make_int_tuple"(%n) {operandSegmentSizes = array<i32: 1, 0>} : (i32) -> !fly.int_tuple<"(?,4)">
    %r = scf.for %i = %m to %m step %m iter_args(%x = %t) -> (!fly.int_tuple<"(?,4)">) {
      %one = "fly.static"() : () -> !fly.int_tuple<"(1,0)">
      %y = "fly.int_tuple_add"(%x, %one) : (!fly.int_tuple<"(?,4)">, !fly.int_tuple<"(1,0)">) -> !fly.int_tuple<"(?,4)">
      scf.yield %y : !fly.int_tuple<"(?,4)">
    }
    %s = "fly.size"(%r) : (!fly.int_tuple<"(?,4)">) -> !fly.int_tuple<"?{i64 div=4}">
    gpu.return
  }
}

// -----

// So are tensors through if and while.
// CHECK-LABEL: gpu.func @branches(
// CHECK: scf.if %{{.*}} -> (!fly.ptr<f32, "global", 4 : i64, "">, i32)
// CHECK: scf.while (%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : (!fly.ptr<f32, "global", 4 : i64, "">, i32) -> (!fly.ptr<f32, "global", 4 : i64, "">, i32)
// CHECK: scf.condition(%{{.*}}) %{{.*}}, %{{.*}} : !fly.ptr<f32, "global", 4 : i64, "">, i32
// CHECK: ^bb0(%{{.*}}: !fly.ptr<f32, "global", 4 : i64, "">, %{{.*}}: i32)
gpu.module @kernels {
  gpu.func @branches(%a: !fly.memref<f32, "global", "?:1", 4 : i64>, %b: !fly.memref<f32, "global", "?:1", 4 : i64>, %c: i1) kernel {
    %x = scf.if %c -> (!fly.memref<f32, "global", "?:1", 4 : i64>) {
      scf.yield %a : !fly.memref<f32, "global", "?:1", 4 : i64>
    } else {
      scf.yield %b : !fly.memref<f32, "global", "?:1", 4 : i64>
    }
    %y = scf.while (%p = %x) : (!fly.memref<f32, "global", "?:1", 4 : i64>) -> (!fly.memref<f32, "global", "?:1", 4 : i64>) {
      scf.condition(%c) %p : !fly.memref<f32, "global", "?:1", 4 : i64>
    } do {
    ^bb0(%q: !fly.memref<f32, "global", "?:1", 4 : i64>):
      scf.yield %q : !fly.memref<f32, "global", "?:1", 4 : i64>
    }
    gpu.return
  }
}
