
define amdgpu_kernel void @beta(ptr addrspace(1) %p, i32 %n) #0 !dbg !5 {
  %t = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !8
  %o = getelementptr i32, ptr addrspace(1) %p, i32 %t, !dbg !8
  store i32 %n, ptr addrspace(1) %o, !dbg !9
  ret void, !dbg !9
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }
!llvm.module.flags = !{!0,!1,!2}
!llvm.dbg.cu = !{!3}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 600}
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = !{i32 7, !"Dwarf Version", i32 5}
!3 = distinct !DICompileUnit(language: DW_LANG_C, file: !4, producer: "p", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)
!4 = !DIFile(filename: "x.py", directory: "/d")
!5 = distinct !DISubprogram(name: "beta", linkageName: "beta", scope: !4, file: !4, line: 3, type: !6, scopeLine: 3, spFlags: DISPFlagDefinition, unit: !3)
!6 = !DISubroutineType(types: !7)
!7 = !{}
!8 = !DILocation(line: 4, column: 2, scope: !5)
!9 = !DILocation(line: 5, column: 2, scope: !5)
