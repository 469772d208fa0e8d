// RUN: fly-mark-stores

// A load, a store, and a store through a moved and recast pointer.
// CHECK: gpu.launch_func {{.*}} @kernels::@direct {{.*}} {fly.stores = array<i32: 1, 3>}
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @direct(%a: !fly.ptr<f32, "global", 4 : i64, "">, %b: !fly.ptr<f32, "global", 4 : i64, "">, %n: i32, %c: !fly.ptr<i32, "global", 4 : i64, "">) kernel {
      %v = "fly.ptr_load"(%a) : (!fly.ptr<f32, "global", 4 : i64, "">) -> f32
      "fly.ptr_store"(%v, %b) : (f32, !fly.ptr<f32, "global", 4 : i64, "">) -> ()
      %m = "fly.add_offset"(%c, %n) : (!fly.ptr<i32, "global", 4 : i64, "">, i32) -> !fly.ptr<i32, "global", 4 : i64, "">
      %r = "fly.recast_iter"(%m) : (!fly.ptr<i32, "global", 4 : i64, "">) -> !fly.ptr<f32, "global", 4 : i64, "">
      "fly.ptr_store"(%v, %r) : (f32, !fly.ptr<f32, "global", 4 : i64, "">) -> ()
      gpu.return
    }
  }
  func.func @launch(%a: !fly.ptr<f32, "global", 4 : i64, "">, %b: !fly.ptr<f32, "global", 4 : i64, "">, %n: i32, %c: !fly.ptr<i32, "global", 4 : i64, "">, %s: i64) {
    gpu.launch_func <%s : i64> @kernels::@direct blocks in (%n, %n, %n) threads in (%n, %n, %n) : i32 dynamic_shared_memory_size %n args(%a : !fly.ptr<f32, "global", 4 : i64, "">, %b : !fly.ptr<f32, "global", 4 : i64, "">, %n : i32, %c : !fly.ptr<i32, "global", 4 : i64, "">)
    return
  }
}

// -----

// What loops and branches carry is followed; an address taken as an integer may be stored through.
// CHECK: gpu.launch_func {{.*}} @kernels::@carried {{.*}} {fly.stores = array<i32: 1, 2>}
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @carried(%a: !fly.ptr<f32, "global", 4 : i64, "">, %b: !fly.ptr<f32, "global", 4 : i64, "">, %c: !fly.ptr<f32, "global", 4 : i64, "">, %n: i32, %t: i1) kernel {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %f = arith.constant 1.0 : f32
      %e:2 = scf.for %i = %zero to %n step %one iter_args(%p = %a, %q = %b) -> (!fly.ptr<f32, "global", 4 : i64, "">, !fly.ptr<f32, "global", 4 : i64, "">) : i32 {
        %p1 = "fly.add_offset"(%p, %one) : (!fly.ptr<f32, "global", 4 : i64, "">, i32) -> !fly.ptr<f32, "global", 4 : i64, "">
        %q1 = scf.if %t -> (!fly.ptr<f32, "global", 4 : i64, "">) {
          %m = "fly.add_offset"(%q, %one) : (!fly.ptr<f32, "global", 4 : i64, "">, i32) -> !fly.ptr<f32, "global", 4 : i64, "">
          scf.yield %m : !fly.ptr<f32, "global", 4 : i64, "">
        } else {
          scf.yield %q : !fly.ptr<f32, "global", 4 : i64, "">
        }
        scf.yield %p1, %q1 : !fly.ptr<f32, "global", 4 : i64, "">, !fly.ptr<f32, "global", 4 : i64, "">
      }
      %v = "fly.ptr_load"(%e#0) : (!fly.ptr<f32, "global", 4 : i64, "">) -> f32
      %w = scf.while (%x = %e#1) : (!fly.ptr<f32, "global", 4 : i64, "">) -> !fly.ptr<f32, "global", 4 : i64, ""> {
        scf.condition(%t) %x : !fly.ptr<f32, "global", 4 : i64, "">
      } do {
      ^bb0(%y: !fly.ptr<f32, "global", 4 : i64, "">):
        "fly.ptr_store"(%v, %y) : (f32, !fly.ptr<f32, "global", 4 : i64, "">) -> ()
        scf.yield %y : !fly.ptr<f32, "global", 4 : i64, "">
      }
      %k = "fly.ptrtoint"(%c) : (!fly.ptr<f32, "global", 4 : i64, "">) -> i64
      gpu.return
    }
  }
  func.func @launch(%a: !fly.ptr<f32, "global", 4 : i64, "">, %n: i32, %t: i1, %s: i64) {
    gpu.launch_func <%s : i64> @kernels::@carried blocks in (%n, %n, %n) threads in (%n, %n, %n) : i32 dynamic_shared_memory_size %n args(%a : !fly.ptr<f32, "global", 4 : i64, "">, %a : !fly.ptr<f32, "global", 4 : i64, "">, %a : !fly.ptr<f32, "global", 4 : i64, "">, %n : i32, %t : i1)
    return
  }
}

// -----

// ERROR: the kernel writes to 'A', and the array passed for it is read-only
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @refused(%a: !fly.ptr<f32, "global", 4 : i64, "">, %f: f32) kernel {
      "fly.ptr_store"(%f, %a) : (f32, !fly.ptr<f32, "global", 4 : i64, "">) -> ()
      gpu.return
    }
  }
  func.func @launch(%a: !fly.ptr<f32, "global", 4 : i64, ""> {fly.read_only = "A"}, %f: f32, %n: i32, %s: i64) {
    %m = "fly.add_offset"(%a, %n) : (!fly.ptr<f32, "global", 4 : i64, "">, i32) -> !fly.ptr<f32, "global", 4 : i64, "">
    gpu.launch_func <%s : i64> @kernels::@refused blocks in (%n, %n, %n) threads in (%n, %n, %n) : i32 dynamic_shared_memory_size %n args(%m : !fly.ptr<f32, "global", 4 : i64, "">, %f : f32)
    return
  }
}
