; Several kernels, a device function that stays a call, a stack object, spills through the stack.
@lookup = internal addrspace(4) constant [3 x float] [float 1.0, float 2.5, float -4.0]
@counter = addrspace(1) global i64 5, align 16
@zeros = internal addrspace(1) global [33 x i16] zeroinitializer, align 64
@big = internal addrspace(3) global [512 x i32] poison, align 16
@dynamic = external addrspace(3) global [0 x i8], align 1024

define internal float @helper(i32 %i) noinline {
  %p = getelementptr [3 x float], ptr addrspace(4) @lookup, i32 0, i32 %i
  %v = load float, ptr addrspace(4) %p
  ret float %v
}
define amdgpu_kernel void @first(ptr addrspace(1) %out, i32 %i) #0 {
  %v = call float @helper(i32 %i)
  store float %v, ptr addrspace(1) %out
  ret void
}
define amdgpu_kernel void @second(ptr addrspace(1) %out, i32 %i, i64 %j) #1 {
  %s = alloca [16 x i32], addrspace(5)
  %a = getelementptr [16 x i32], ptr addrspace(5) %s, i32 0, i32 %i
  store volatile i32 7, ptr addrspace(5) %a
  %l = getelementptr [512 x i32], ptr addrspace(3) @big, i32 0, i32 %i
  store volatile i32 1, ptr addrspace(3) %l
  %d = getelementptr i8, ptr addrspace(3) @dynamic, i32 %i
  store volatile i8 1, ptr addrspace(3) %d
  %old = atomicrmw add ptr addrspace(1) @counter, i64 %j syncscope("agent") monotonic
  %z = getelementptr [33 x i16], ptr addrspace(1) @zeros, i32 0, i32 %i
  store i16 3, ptr addrspace(1) %z
  store i64 %old, ptr addrspace(1) %out
  ret void
}
define amdgpu_kernel void @third() #0 {
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" }
attributes #1 = { "amdgpu-flat-work-group-size"="1,512" }
