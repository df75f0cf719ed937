# How cmake builds the solver HiGHS (crate highs-sys): several of its files are compiled as one, which takes half the time of each for itself.
set(CMAKE_UNITY_BUILD ON)
