// The same idea as counted.c with containers and objects: counted [N [TURNS]].
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

class Table {
    std::vector<double> cells;
    std::unique_ptr<unsigned[]> order;

public:
    explicit Table(long n) : cells(n, 1.0), order(new unsigned[n]) {
        for (long i = 0; i < n; i++) order[i] = i * 7919 % n;
    }
    double gather() const {
        double sum = 0;
        for (std::size_t i = 0; i < cells.size(); i++) sum += cells[order[i]];
        return sum;
    }
};

}  // namespace

int main(int argc, char **argv) {
    const long n = argc > 1 ? std::atol(argv[1]) : 1000000, turns = argc > 2 ? std::atol(argv[2]) : 10;
    const Table table(n);
    std::vector<double> log(4 * n);
    double sum = 0;
    for (long t = 0; t < turns; t++) {
        sum += table.gather();
        for (double &l : log) sum += l;
    }
    std::printf("%g\n", sum);
}
