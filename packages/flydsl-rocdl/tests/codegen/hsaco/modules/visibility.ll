
@str = private unnamed_addr addrspace(4) constant [6 x i8] c"hello\00"
@str2 = private unnamed_addr addrspace(4) constant [4 x i8] c"abc\00"
@ptab = addrspace(4) constant [2 x ptr addrspace(4)] [ptr addrspace(4) @str, ptr addrspace(4) @str2]
@hid = hidden addrspace(1) global i32 7
@prot = protected addrspace(1) global i32 8
@phid = protected addrspace(1) global [2 x ptr addrspace(1)] [ptr addrspace(1) @hid, ptr addrspace(1) @prot]
@wk = weak addrspace(1) global i32 3
@cst16 = private unnamed_addr addrspace(4) constant [4 x i32] [i32 9, i32 8, i32 7, i32 6]
define amdgpu_kernel void @alpha(ptr addrspace(1) %p, i32 %n) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %q0 = getelementptr [2 x ptr addrspace(4)], ptr addrspace(4) @ptab, i32 0, i32 %n
  %q = load ptr addrspace(4), ptr addrspace(4) %q0
  %v = load i8, ptr addrspace(4) %q
  %ve = zext i8 %v to i32
  %w = load i32, ptr addrspace(1) @hid
  %w2 = load i32, ptr addrspace(1) @prot
  %w3 = load i32, ptr addrspace(1) @wk
  %c0 = getelementptr [4 x i32], ptr addrspace(4) @cst16, i32 0, i32 %t
  %c = load i32, ptr addrspace(4) %c0
  %c1 = getelementptr [6 x i8], ptr addrspace(4) @str, i32 0, i32 %t
  %cc = load i8, ptr addrspace(4) %c1
  %cce = zext i8 %cc to i32
  %a1 = add i32 %ve, %w
  %a2 = add i32 %w2, %w3
  %a3 = add i32 %c, %cce
  %a4 = add i32 %a1, %a2
  %a5 = add i32 %a4, %a3
  %o = getelementptr i32, ptr addrspace(1) %p, i32 %t
  store i32 %a5, ptr addrspace(1) %o
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 600}
