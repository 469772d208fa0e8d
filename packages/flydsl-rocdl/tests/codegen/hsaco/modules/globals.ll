
@lds0 = internal addrspace(3) global [256 x float] poison, align 16
@dyn = external addrspace(3) global [0 x i8], align 1024
@tab = internal constant [8 x i32] [i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8]
@ctab = addrspace(4) constant [4 x i32] [i32 9, i32 8, i32 7, i32 6]
@gdata = addrspace(1) global [4 x i32] [i32 1, i32 2, i32 3, i32 4]
@gbss = addrspace(1) global [100 x i32] zeroinitializer
@pdata = addrspace(1) global [2 x ptr addrspace(1)] [ptr addrspace(1) @gdata, ptr addrspace(1) getelementptr(i32, ptr addrspace(1) @gbss, i64 5)]
define amdgpu_kernel void @k1(ptr addrspace(1) %p, i32 %n) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = getelementptr [256 x float], ptr addrspace(3) @lds0, i32 0, i32 %t
  store float 1.0, ptr addrspace(3) %g
  %d = getelementptr [0 x i8], ptr addrspace(3) @dyn, i32 0, i32 %t
  store i8 1, ptr addrspace(3) %d
  call void @llvm.amdgcn.s.barrier()
  %x = xor i32 %t, 1
  %g2 = getelementptr [256 x float], ptr addrspace(3) @lds0, i32 0, i32 %x
  %v = load float, ptr addrspace(3) %g2
  %o = getelementptr float, ptr addrspace(1) %p, i32 %t
  store float %v, ptr addrspace(1) %o
  ret void
}
define internal i32 @dev(i32 %i) noinline {
  %a = getelementptr [8 x i32], ptr @tab, i32 0, i32 %i
  %v = load i32, ptr %a
  ret i32 %v
}
define i32 @devext(i32 %i) noinline {
  %a = getelementptr [4 x i32], ptr addrspace(4) @ctab, i32 0, i32 %i
  %v = load i32, ptr addrspace(4) %a
  ret i32 %v
}
define amdgpu_kernel void @k2(ptr addrspace(1) %p, i32 %n) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %v = call i32 @dev(i32 %t)
  %w = call i32 @devext(i32 %t)
  %z = add i32 %v, %w
  %pp = getelementptr [2 x ptr addrspace(1)], ptr addrspace(1) @pdata, i32 0, i32 %n
  %q = load ptr addrspace(1), ptr addrspace(1) %pp
  %o = getelementptr i32, ptr addrspace(1) %q, i32 %t
  store i32 %z, ptr addrspace(1) %o
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 600}
