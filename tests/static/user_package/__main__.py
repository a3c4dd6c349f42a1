"""Train the network and print how it went."""

# pyright: strict, reportUnknownMemberType=false

from user_package.train import fit


def main() -> None:
    report = fit()
    print(f"loss {report.losses[0]:.3f} -> {report.losses[-1]:.3f}")
    print(f"{report.parameters} parameters; {report.dense_parameters} if they were dense")


if __name__ == "__main__":
    main()
