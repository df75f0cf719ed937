# The variable that programs of hearth-cc have, for programs of ours that stand in for one: tests and benches.
.pushsection .tbss.hearth_path,"awT",@nobits
.p2align 4
.weak __hearth_path
.type __hearth_path,@object
.size __hearth_path,16
__hearth_path:
.zero 16
.popsection
