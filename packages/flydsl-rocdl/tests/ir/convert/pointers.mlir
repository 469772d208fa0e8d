// TARGETS: gfx942 gfx950

!g = !fly.ptr<f32, "global", 16 : i64, "">
!s = !fly.ptr<f32, "shared", 16 : i64, "">
!s8 = !fly.ptr<i8, "shared", 16 : i64, "">

gpu.module @m {
  // CHECK-DAG: llvm.mlir.global external @__fly_dynamic_lds() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  // CHECK-DAG: llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<1024 x i8>

  // CHECK: gpu.func @arguments(
  // CHECK-SAME: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noundef}
  // CHECK-SAME: !llvm.ptr<1> {llvm.noundef}
  // CHECK-SAME: i64 {llvm.noundef}
  gpu.func @arguments(%a: !g, %b: !fly.ptr<i8, "global", 1 : i64, "">, %n: i64) kernel {
    // CHECK: %[[P:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %p = "fly.add_offset"(%a, %n) : (!g, i64) -> !fly.ptr<f32, "global", 4 : i64, "">
    // CHECK: llvm.load %[[P]] {alignment = 4 : i64} : !llvm.ptr<1> -> f32
    %x = "fly.ptr_load"(%p) : (!fly.ptr<f32, "global", 4 : i64, "">) -> f32
    // CHECK: llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : f32, !llvm.ptr<1>
    "fly.ptr_store"(%x, %a) : (f32, !g) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @local_data_share(
  gpu.func @local_data_share(%i: i32, %c: i1) kernel {
    // CHECK: %[[TILE:.*]] = llvm.mlir.addressof @tile : !llvm.ptr<3>
    %t8 = "fly.alloca"() {bytes = 1024 : i64, sym = "tile"} : () -> !s8
    %t = "fly.recast_iter"(%t8) : (!s8) -> !s
    // CHECK: %[[DYN:.*]] = llvm.mlir.addressof @__fly_dynamic_lds : !llvm.ptr<3>
    %d8 = "fly.get_dyn_shared"() : () -> !s8
    %d = "fly.recast_iter"(%d8) : (!s8) -> !s
    // CHECK: %[[EITHER:.*]] = arith.select %{{.*}}, %[[TILE]], %[[DYN]] : !llvm.ptr<3>
    %either = arith.select %c, %t, %d : !s
    // CHECK: %[[LOOP:.*]]:2 = scf.for {{.*}} iter_args({{.*}} = %[[EITHER]]) -> (f32, !llvm.ptr<3>)
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %start = arith.constant 0.0 : f32
    %r:2 = scf.for %k = %zero to %i step %one iter_args(%acc = %start, %at = %either) -> (f32, !s) : i32 {
      %v = "fly.ptr_load"(%at) : (!s) -> f32
      %sum = arith.addf %acc, %v : f32
      // CHECK: llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
      %next = "fly.add_offset"(%at, %one) : (!s, i32) -> !s
      scf.yield %sum, %next : f32, !s
    }
    // CHECK: llvm.store %[[LOOP]]#0, %[[LOOP]]#1
    "fly.ptr_store"(%r#0, %r#1) : (f32, !s) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @small_elements(
  gpu.func @small_elements(%b: !fly.ptr<i1, "global", 1 : i64, "">,
                           %f: !fly.ptr<f8E4M3FN, "global", 4 : i64, "">,
                           %q: !fly.ptr<f4E2M1FN, "global", 1 : i64, "">, %i: i32) kernel {
    // CHECK: llvm.getelementptr %{{.*}} : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
    %bi = "fly.add_offset"(%b, %i) : (!fly.ptr<i1, "global", 1 : i64, "">, i32) -> !fly.ptr<i1, "global", 1 : i64, "">
    // CHECK: %[[BYTE:.*]] = llvm.load %{{.*}} -> i8
    // CHECK: %[[BIT:.*]] = llvm.trunc %[[BYTE]] : i8 to i1
    %x = "fly.ptr_load"(%bi) : (!fly.ptr<i1, "global", 1 : i64, "">) -> i1
    // CHECK: %[[WIDE:.*]] = llvm.zext %[[BIT]] : i1 to i8
    // CHECK: llvm.store %[[WIDE]]
    "fly.ptr_store"(%x, %b) : (i1, !fly.ptr<i1, "global", 1 : i64, "">) -> ()
    // CHECK: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<4xi8>
    %v = "fly.ptr_load"(%f) : (!fly.ptr<f8E4M3FN, "global", 4 : i64, "">) -> vector<4xf8E4M3FN>
    "fly.ptr_store"(%v, %f) : (vector<4xf8E4M3FN>, !fly.ptr<f8E4M3FN, "global", 4 : i64, "">) -> ()
    // CHECK: %[[SCALED:.*]] = llvm.mul %{{.*}}, %{{.*}} : i32
    // CHECK: %[[BYTES:.*]] = llvm.ashr %[[SCALED]]
    // CHECK: llvm.getelementptr %{{.*}}[%[[BYTES]]] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
    %qi = "fly.add_offset"(%q, %i) : (!fly.ptr<f4E2M1FN, "global", 1 : i64, "">, i32) -> !fly.ptr<f4E2M1FN, "global", 1 : i64, "">
    // CHECK: llvm.load %{{.*}} -> vector<8xi4>
    %w = "fly.ptr_load"(%qi) : (!fly.ptr<f4E2M1FN, "global", 1 : i64, "">) -> vector<8xf4E2M1FN>
    "fly.ptr_store"(%w, %q) : (vector<8xf4E2M1FN>, !fly.ptr<f4E2M1FN, "global", 1 : i64, "">) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @private_memory(
  gpu.func @private_memory(%i: i32) kernel {
    // CHECK: %[[SIZE:.*]] = llvm.mlir.constant(64 : i32)
    // CHECK: llvm.alloca %[[SIZE]] x i8 {alignment = 4 : i64} : (i32) -> !llvm.ptr<5>
    %c = arith.cmpi eq, %i, %i : i32
    scf.if %c {
      %p = "fly.alloca"() {bytes = 64 : i64} : () -> !fly.ptr<i32, "register", 4 : i64, "">
      %q = "fly.add_offset"(%p, %i) : (!fly.ptr<i32, "register", 4 : i64, "">, i32) -> !fly.ptr<i32, "register", 4 : i64, "">
      "fly.ptr_store"(%i, %q) : (i32, !fly.ptr<i32, "register", 4 : i64, "">) -> ()
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.func @addresses(
  gpu.func @addresses(%a: !g, %n: i64) kernel {
    // CHECK: llvm.ptrtoint %{{.*}} : !llvm.ptr<1> to i64
    %i = "fly.ptrtoint"(%a) : (!g) -> i64
    %j = arith.addi %i, %n : i64
    // CHECK: %[[Q:.*]] = llvm.inttoptr %{{.*}} : i64 to !llvm.ptr<1>
    %q = "fly.inttoptr"(%j) : (i64) -> !g
    // CHECK: llvm.addrspacecast %[[Q]] : !llvm.ptr<1> to !llvm.ptr
    %l = "fly.to_llvm_ptr"(%q) {llvm_address_space = 0 : i32} : (!g) -> !llvm.ptr
    llvm.store %n, %l : i64, !llvm.ptr
    gpu.return
  }

  // CHECK-LABEL: gpu.func @buffers(
  gpu.func @buffers(%a: !g, %bytes: i32) kernel {
    // CHECK: %[[WIDE:.*]] = llvm.zext %{{.*}} : i32 to i64
    // CHECK: %[[FLAGS:.*]] = llvm.mlir.constant(159744 : i32)
    // CHECK: "llvm.amdgcn.make.buffer.rsrc"(%{{.*}}, %{{.*}}, %[[WIDE]], %[[FLAGS]]) : (!llvm.ptr<1>, i16, i64, i32) -> !llvm.ptr<7>
    %b = "fly.make_ptr"(%a, %bytes) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!g, i32) -> !fly.ptr<f32, "buffer", 16 : i64, "">
    // CHECK: llvm.mlir.constant(4294967295 : i64)
    // CHECK: "llvm.amdgcn.make.buffer.rsrc"
    %u = "fly.make_ptr"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (!g) -> !fly.ptr<f32, "buffer", 16 : i64, "">
    // CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<7> -> vector<4xf32>
    %v = "fly.ptr_load"(%b) : (!fly.ptr<f32, "buffer", 16 : i64, "">) -> vector<4xf32>
    "fly.ptr_store"(%v, %u) : (vector<4xf32>, !fly.ptr<f32, "buffer", 16 : i64, "">) -> ()
    gpu.return
  }
}
